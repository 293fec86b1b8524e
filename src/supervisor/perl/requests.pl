# The protocol between the supervisor and its Perl programs. A request on standard input is a 32-bit big-endian length,
# then fields separated by NUL: a number, a verb, its arguments. An answer on standard output is one line: the number,
# then "ok", "failed TEXT", "pid N" or "exit STATUS". The program exits at the end of standard input.
use strict;
use warnings;
use POSIX qw(:sys_wait_h :errno_h);

# Descriptor to watch => callback to run when it is readable.
our %followed;
pipe(my $wake_reader, my $wake_writer) or die "pipe: $!\n";
POSIX::fcntl($wake_writer, POSIX::F_SETFL(), POSIX::O_NONBLOCK());

sub answer { my ($id, $text) = @_; $text =~ s/[\r\n]+/ /g; syswrite STDOUT, "$id $text\n"; }

# Must be the first call in a child: the parent's handlers and descriptors are not its own.
sub forget_requests {
    $SIG{CHLD} = 'DEFAULT';
    $SIG{PIPE} = 'DEFAULT';
    %followed = ();
}

sub write_all {
    my ($handle, $text) = @_;
    while ($text ne '') {
        my $written = syswrite $handle, $text;
        next if !defined $written && $! == EINTR;
        # The reader has exited, which is reported like any other exit.
        return if !$written;
        substr $text, 0, $written, '';
    }
}

# $serve is called with the fields of a request, $ended with the pid and the status of a child, and $tick at least every
# second while a descriptor is watched.
sub serve_requests {
    my ($serve, $ended, $tick) = @_;
    $SIG{CHLD} = sub { syswrite $wake_writer, 'c' };
    $SIG{PIPE} = 'IGNORE';
    $| = 1;
    my $buffer = '';
    while (1) {
        my $ready = '';
        vec($ready, fileno(STDIN), 1) = 1;
        vec($ready, fileno($wake_reader), 1) = 1;
        vec($ready, $_, 1) = 1 for keys %followed;
        my $found = select $ready, undef, undef, %followed ? 1 : undef;
        $tick->();
        next if $found <= 0;
        if (vec($ready, fileno($wake_reader), 1)) {
            sysread $wake_reader, my $ignored, 4096;
            while ((my $pid = waitpid -1, WNOHANG) > 0) { $ended->($pid, $?) }
        }
        for my $descriptor (grep { vec($ready, $_, 1) } keys %followed) {
            $followed{$descriptor}->() if $followed{$descriptor};
        }
        next if !vec($ready, fileno(STDIN), 1);
        my $got = sysread STDIN, $buffer, 65536, length $buffer;
        next if !defined $got && $! == EINTR;
        return if !$got;
        while (length $buffer >= 4) {
            my $length = unpack 'N', $buffer;
            last if length $buffer < 4 + $length;
            my $frame = substr $buffer, 4, $length;
            substr($buffer, 0, 4 + $length) = '';
            $serve->(split /\0/, $frame, -1);
        }
    }
}

1;
