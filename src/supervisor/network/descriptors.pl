# Passes sockets between processes (SCM_RIGHTS), which neither Node nor Perl supports. Included by other programs.
use strict;
use warnings;
use POSIX ();

my %message_calls = (x86_64 => { sendmsg => 46, recvmsg => 47 }, aarch64 => { sendmsg => 211, recvmsg => 212 });

sub message_call {
    my ($name) = @_;
    my $machine = (POSIX::uname())[4];
    return $message_calls{$machine}{$name} // die "no system call numbers for $machine\n";
}

# A struct msghdr for one text and one descriptor. Both strings must stay in place while it is used.
sub message_head {
    my ($iov_ref, $text_ref, $control_ref) = @_;
    $$iov_ref = pack 'P Q', $$text_ref, length $$text_ref;
    return pack 'Q Q P Q P Q Q', 0, 0, $$iov_ref, 1, $$control_ref, length $$control_ref, 0;
}

# Sends the text, with a socket if there is one. A short text is sent whole or not at all.
sub send_with {
    my ($to, $text, $socket) = @_;
    # cmsg_len, SOL_SOCKET, SCM_RIGHTS, the descriptor.
    my $control = defined $socket ? pack('Q l l l x4', 20, 1, 1, fileno $socket) : '';
    my $head = message_head(\my $iov, \$text, \$control);
    my $sent;
    do { $sent = syscall(message_call('sendmsg'), fileno $to, $head, 0) } until $sent >= 0 || !$!{EINTR};
    return $sent == length $text;
}

# Returns the text and the socket that came with it.
sub receive_with {
    my ($from) = @_;
    my ($text, $control) = ("\0" x 4096, "\0" x 24);
    my $head = message_head(\my $iov, \$text, \$control);
    my $got;
    # 0x40000000 is MSG_CMSG_CLOEXEC.
    do { $got = syscall(message_call('recvmsg'), fileno $from, $head, 0x40000000) } until $got >= 0 || !$!{EINTR};
    return if $got <= 0;
    my ($length, $level, $type, $descriptor) = unpack 'Q l l l', $control;
    my $has_socket = (unpack 'Q7', $head)[5] >= 20 && $length == 20 && $level == 1 && $type == 1;
    my $socket;
    if ($has_socket) { open $socket, '+<&=', $descriptor or die "descriptor: $!\n" }
    return (substr($text, 0, $got), $socket);
}

1;
