#!/usr/bin/perl
# The few system calls that Node cannot make, for the supervisor: mount, umount, mkfifo, subvolumes, and a command inside
# a workspace's namespaces. One small process that forks is also much faster than starting a program from a large one.
#
# Requests on standard input: a 32-bit big-endian length, then fields separated by NUL: a number, a verb, its arguments.
# Answers on standard output, one line each: the number, then "ok", "failed TEXT", "pid N" or "exit STATUS".
# Ends when standard input does. Runs as root of the supervisor's user namespace.
use strict;
use warnings;
no warnings 'portable';
use Fcntl qw(O_RDONLY O_WRONLY O_DIRECTORY F_DUPFD);
use POSIX qw(:sys_wait_h :errno_h);

my %numbers = (
    x86_64 => {
        mount => 165, umount2 => 166, setns => 308, clone => 56, prctl => 157, capset => 126, seccomp => 317,
        prlimit64 => 302, setresuid => 117, setresgid => 119, setgroups => 116, unshare => 272, close_range => 436,
    },
    aarch64 => {
        mount => 40, umount2 => 39, setns => 268, clone => 220, prctl => 167, capset => 91, seccomp => 277,
        prlimit64 => 261, setresuid => 147, setresgid => 149, setgroups => 159, unshare => 97, close_range => 436,
    },
);
my $machine = (POSIX::uname())[4];
my $number = $numbers{$machine} or die "launcher: no system call numbers for $machine\n";

use constant {
    CLONE_PARENT => 0x8000, CLONE_NEWNS => 0x20000, CLONE_NEWCGROUP => 0x2000000, CLONE_NEWUTS => 0x4000000,
    CLONE_NEWIPC => 0x8000000, CLONE_NEWUSER => 0x10000000, CLONE_NEWPID => 0x20000000, CLONE_NEWNET => 0x40000000,
    PR_SET_DUMPABLE => 4, PR_CAPBSET_DROP => 24, PR_SET_NO_NEW_PRIVS => 38, PR_CAP_AMBIENT => 47,
    PR_CAP_AMBIENT_CLEAR_ALL => 4, SECCOMP_SET_MODE_FILTER => 1, RLIMIT_NPROC => 6, RLIMIT_NOFILE => 7,
    SUBVOLUME_CREATE => 0x50009418, SUBVOLUME_COPY => 0x50009401, SUBVOLUME_DELETE => 0x5000940f,
    SUBVOLUME_WITH_QUOTA => 4, QUOTA_SET_LIMITS => 1, QUOTA_MAX_REFERENCED => 1,
    ENTER_SECONDS => 20, RLIMIT_CORE => 4, CAPABILITY_VERSION_3 => 0x20080522, CAPABILITIES => 64,
};

# Workspace namespaces in the order they are entered: the user namespace last, because entering it gives up the
# capabilities that entering the others needs.
my @namespaces = (
    [ 'cgroup', CLONE_NEWCGROUP ], [ 'ipc', CLONE_NEWIPC ], [ 'uts', CLONE_NEWUTS ], [ 'net', CLONE_NEWNET ],
    [ 'pid', CLONE_NEWPID ], [ 'mnt', CLONE_NEWNS ], [ 'user', CLONE_NEWUSER ],
);

my %child;       # pid of a command => number of its request
my %entering;    # descriptor of its report => a command on its way in
my %ended;       # pid => status of what ended while others were on their way
my %seats;       # pid of who waits for its order => where it is written to
pipe(my $wake_reader, my $wake_writer) or die "launcher: pipe: $!\n";
POSIX::fcntl($wake_writer, POSIX::F_SETFL(), POSIX::O_NONBLOCK());
$SIG{CHLD} = sub { syswrite $wake_writer, 'c' };
$SIG{PIPE} = 'IGNORE';
$| = 1;

sub answer { my ($id, $text) = @_; $text =~ s/[\r\n]+/ /g; syswrite STDOUT, "$id $text\n"; }

sub fail { die "$_[0]: $!\n" }

sub mount_verb {
    my ($type, $source, $target, $flags, $data) = @_;
    syscall($number->{mount}, $source, $target, $type, int $flags, $data) == 0 or fail("mount $target");
}

sub umount_verb {
    my ($target, $flags) = @_;
    syscall($number->{umount2}, $target, int $flags) == 0 or $! == EINVAL or $! == ENOENT or fail("umount $target");
}

sub fifo_verb {
    for my $path (@_) { POSIX::mkfifo($path, 0600) or fail("mkfifo $path") }
}

sub open_folder {
    my ($path) = @_;
    sysopen(my $folder, $path, O_RDONLY | O_DIRECTORY) or fail("open $path");
    return $folder;
}

# Subvolumes of btrfs. An empty one is made together with its quota: a limit that comes with the creation needs no
# privilege of the machine's root, unlike one that is set later.
sub make_subvolume_verb {
    my ($path, $bytes) = @_;
    my ($parent, $name) = $path =~ m{^(.*)/([^/]+)$};
    my $quota = pack 'Q4 Q5', QUOTA_SET_LIMITS, 0, 0, 0, QUOTA_MAX_REFERENCED, $bytes, 0, 0, 0;
    my $place = unpack 'Q', pack 'P', $quota;
    my $arguments = pack 'q Q Q Q Q Q Q a4040', 0, 0, SUBVOLUME_WITH_QUOTA, length $quota, $place, 0, 0, $name;
    defined ioctl(open_folder($parent), SUBVOLUME_CREATE, $arguments) or fail("subvolume $path");
}

sub copy_subvolume_verb {
    my ($path, $source) = @_;
    my ($parent, $name) = $path =~ m{^(.*)/([^/]+)$};
    my $copied = open_folder($source);
    my $arguments = pack 'q a4088', fileno $copied, $name;
    defined ioctl(open_folder($parent), SUBVOLUME_COPY, $arguments) or fail("subvolume $path");
}

sub remove_subvolume_verb {
    my ($path) = @_;
    my ($parent, $name) = $path =~ m{^(.*)/([^/]+)$};
    my $arguments = pack 'q a4088', 0, $name;
    defined ioctl(open_folder($parent), SUBVOLUME_DELETE, $arguments) or fail("subvolume $path");
}

# A user namespace of its own, held open by a process until it is killed; the caller writes its maps.
sub userns_verb {
    pipe(my $reader, my $writer) or fail('pipe');
    my $pid = fork() // fail('fork');
    if ($pid == 0) {
        $SIG{CHLD} = 'DEFAULT';
        %seats = ();
        close STDIN;
        syscall($number->{unshare}, CLONE_NEWUSER) == 0 or POSIX::_exit(1);
        syswrite $writer, 'r';
        close $writer;
        sleep 3600 while 1;
    }
    close $writer;
    my $ready;
    # The end of another child interrupts the wait.
    do { $ready = sysread $reader, my $byte, 1 } until defined $ready || $! != EINTR;
    $ready or fail('user namespace');
    return $pid;
}

# Never more than what the supervisor itself may have: root of a user namespace cannot raise a limit.
sub limit {
    my ($resource, $wanted) = @_;
    my $now = pack 'QQ', 0, 0;
    syscall($number->{prlimit64}, 0, $resource, 0, $now) == 0 or fail("limit $resource");
    my $hard = (unpack 'QQ', $now)[1];
    my $value = $wanted < $hard ? $wanted : $hard;
    syscall($number->{prlimit64}, 0, $resource, pack('QQ', $value, $value), 0) == 0 or fail("limit $resource");
}

sub drop_capabilities {
    my ($kept) = @_;
    for my $capability (0 .. CAPABILITIES - 1) {
        next if $kept >> $capability & 1;
        syscall($number->{prctl}, PR_CAPBSET_DROP, $capability, 0, 0, 0) == 0 or $! == EINVAL or fail('bounding set');
    }
    syscall($number->{prctl}, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    my $header = pack('LL', CAPABILITY_VERSION_3, 0);
    my ($low, $high) = ($kept & 0xffffffff, $kept >> 32);
    my $sets = pack('L6', $low, $low, 0, $high, $high, 0);
    syscall($number->{capset}, $header, $sets) == 0 or fail('capset');
}

# In the workspace already; never returns.
sub become_command {
    my ($request, $filter) = @_;
    POSIX::setsid();
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, $request->{files_max});
    limit(RLIMIT_NPROC, $request->{processes_max}) if $request->{processes_max} > 0;
    # Refused where a single id is mapped; there is no other group to shed then.
    syscall($number->{setgroups}, 0, 0);
    syscall($number->{setresgid}, 0, 0, 0) == 0 or fail('setresgid');
    syscall($number->{setresuid}, 0, 0, 0) == 0 or fail('setresuid');
    chdir $request->{workdir} or fail("workdir $request->{workdir}");
    drop_capabilities($request->{capabilities});
    syscall($number->{prctl}, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 or fail('no_new_privs');
    my $program = pack('S x6 Q', length($filter) / 8, unpack('Q', pack('P', $filter)));
    syscall($number->{seccomp}, SECCOMP_SET_MODE_FILTER, 0, $program) == 0 or fail('seccomp');
    %ENV = ();
    for (@{ $request->{environment} }) { my ($name, $value) = split /=/, $_, 2; $ENV{$name} = $value }
    { no warnings 'exec'; exec { $request->{argv}[0] } @{ $request->{argv} } }
    fail("run $request->{argv}[0]");
}

sub join_group {
    my ($path) = @_;
    open(my $members, '>', $path) or fail("join $path");
    syswrite($members, '0') or fail("join $path");
    close $members;
}

# Enters the namespaces and leaves the command behind as a child of the launcher, whose pid goes to $report.
sub enter_and_clone {
    my ($request, $report) = @_;
    syscall($number->{prctl}, PR_SET_DUMPABLE, 0, 0, 0, 0);
    join_group($_) for @{ $request->{cgroups} };
    open(my $filter_file, '<:raw', $request->{filter}) or fail('seccomp filter');
    read($filter_file, my $filter, 65536);
    open(STDIN, '<', $request->{stdin}) or fail('stdin');
    open(STDOUT, '>', $request->{stdout}) or fail('stdout');
    open(STDERR, '>', $request->{stderr}) or fail('stderr');
    my @open = map {
        open(my $handle, '<', "/proc/$request->{pid}/ns/$_->[0]") or fail("namespace $_->[0]");
        [ $handle, @$_ ]
    } @namespaces;
    for (@open) { syscall($number->{setns}, fileno $_->[0], $_->[2]) == 0 or fail("enter $_->[1]") }
    my $pid = syscall($number->{clone}, CLONE_PARENT | POSIX::SIGCHLD(), 0, 0, 0, 0);
    $pid >= 0 or fail('clone');
    if ($pid == 0) {
        eval { become_command($request, $filter); 1 };
        syswrite STDERR, "castellan: $@";
        syswrite $report, "failed $@";
        POSIX::_exit(127);
    }
    syswrite $report, "pid $pid\n";
    POSIX::_exit(0);
}

sub parse_enter {
    my ($pid, $stdin, $stdout, $stderr, $workdir, $capabilities, $processes_max, $files_max, $filter, $cgroups, $argc,
        @rest) = @_;
    return {
        pid => $pid, stdin => $stdin, stdout => $stdout, stderr => $stderr, workdir => $workdir,
        capabilities => hex $capabilities, processes_max => int $processes_max, files_max => int $files_max,
        filter => $filter, cgroups => [ split /\n/, $cgroups ], argv => [ splice @rest, 0, $argc ],
        environment => \@rest,
    };
}

sub open_as {
    my ($path, $flags, $wanted) = @_;
    my $opened = POSIX::open($path, $flags) // fail("open $path");
    POSIX::dup2($opened, $wanted) // fail("descriptor $wanted");
}

# A process that is in its control groups and waits for the order to become the first of a workspace. To join a group the
# kernel waits until every processor has passed a quiet point; who waits here has those milliseconds behind it.
sub take_seat {
    my ($cgroups) = @_;
    pipe(my $reader, my $writer) or fail('pipe');
    my $pid = fork() // fail('fork');
    if ($pid == 0) {
        $SIG{CHLD} = 'DEFAULT';
        $SIG{PIPE} = 'DEFAULT';
        $0 = 'castellan-seat';
        %seats = ();
        close $writer;
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', '/dev/null');
        my $has_joined = eval { join_group($_) for split /\n/, $cgroups; 1 };
        my $problem = $@;
        become_holder(read_order($reader), $has_joined ? undef : $problem);
    }
    $seats{$pid} = $writer;
    return $pid;
}

# Its length first: another child that was forked meanwhile may keep the pipe from ending. Whoever would have written may be
# gone before there was an order; then there is nothing to do.
sub read_order {
    my ($reader) = @_;
    my $length = unpack 'N', read_bytes($reader, 4);
    return read_bytes($reader, $length);
}

sub read_bytes {
    my ($reader, $count) = @_;
    my $bytes = '';
    while (length $bytes < $count) {
        my $got = sysread $reader, $bytes, $count - length $bytes, length $bytes;
        next if !defined $got && $! == EINTR;
        POSIX::_exit(0) if !$got;
    }
    return $bytes;
}

# Descriptors 3 to 5 are what bwrap is told to write to, filter by and enter. Never returns.
sub become_holder {
    my ($order, $problem) = @_;
    my ($stdin, $stdout, $log, $info, $filter, $userns, @argv) = split /\0/, $order, -1;
    eval {
        open(STDERR, '>>', $log) or fail('log');
        die $problem if defined $problem;
        open(STDIN, '<', $stdin) or fail('stdin');
        open(STDOUT, '>', $stdout) or fail('stdout');
        open_as($info, O_WRONLY, 63);
        open_as($filter, O_RDONLY, 64);
        open_as("/proc/$userns/ns/user", O_RDONLY, 65) if $userns ne '';
        for (3 .. 5) { POSIX::dup2($_ + 60, $_) if $_ < 5 || $userns ne '' }
        syscall($number->{close_range}, $userns ne '' ? 6 : 5, 0xffffffff, 0);
        %ENV = (PATH => '/usr/local/bin:/usr/bin:/bin');
        { no warnings 'exec'; exec { 'bwrap' } 'bwrap', @argv }
        fail('run bwrap');
    };
    syswrite STDERR, "castellan: $@";
    POSIX::_exit(126);
}

# By the one that waits, or by a new one where there is none or it has ended.
sub hold_verb {
    my ($id, $seat, $cgroups, @order) = @_;
    $seat = take_seat($cgroups) if !$seats{$seat};
    my $order = join "\0", @order;
    write_all(delete $seats{$seat}, pack('N', length $order) . $order);
    $child{$seat} = $id;
    answer($id, "pid $seat");
}

sub write_all {
    my ($handle, $text) = @_;
    while ($text ne '') {
        my $written = syswrite $handle, $text;
        next if !defined $written && $! == EINTR;
        # It has ended; its end is told like any other.
        return if !$written;
        substr $text, 0, $written, '';
    }
}

# Not waited for here: a command on its way in can be stopped by others in its workspace, and nobody else may wait for it.
sub enter_verb {
    my ($id, @fields) = @_;
    my $request = parse_enter(@fields);
    pipe(my $reader, my $writer) or fail('pipe');
    my $between = fork() // fail('fork');
    if ($between == 0) {
        $SIG{CHLD} = 'DEFAULT';
        $SIG{PIPE} = 'DEFAULT';
        eval { enter_and_clone($request, $writer); 1 };
        syswrite $writer, "failed $@";
        POSIX::_exit(126);
    }
    $entering{ fileno $reader } = { id => $id, reader => $reader, text => '', until => time + ENTER_SECONDS, between => $between };
}

# Reads what a command on its way reports; its own exec closes the last end of the pipe.
sub follow_entry {
    my ($key) = @_;
    my $entry = $entering{$key};
    my $got = sysread $entry->{reader}, $entry->{text}, 4096, length $entry->{text};
    return if !defined $got && $! == EINTR;
    finish_entry($key) if !$got;
}

sub finish_entry {
    my ($key, $problem) = @_;
    my $entry = delete $entering{$key};
    my ($id, $text) = @$entry{qw(id text)};
    my ($pid) = $text =~ /^pid (\d+)$/m;
    my ($failure) = $text =~ /^failed (.*)/m;
    $failure = $problem if defined $problem;
    if (defined $failure || !defined $pid) {
        kill 'KILL', grep { defined } $pid, $entry->{between} if defined $problem;
        answer($id, 'failed ' . ($failure // 'no command'));
        return;
    }
    answer($id, "pid $pid");
    # It may have ended before it was known to have begun.
    if (defined(my $status = delete $ended{$pid})) { answer($id, "exit $status") }
    else { $child{$pid} = $id }
}

sub serve {
    my ($id, $verb, @arguments) = @_;
    return enter_verb($id, @arguments) if $verb eq 'enter';
    return hold_verb($id, @arguments) if $verb eq 'hold';
    my $result = eval {
          $verb eq 'mount'  ? do { mount_verb(@arguments); 'ok' }
        : $verb eq 'umount' ? do { umount_verb(@arguments); 'ok' }
        : $verb eq 'fifo'   ? do { fifo_verb(@arguments); 'ok' }
        : $verb eq 'subvolume' ? do { make_subvolume_verb(@arguments); 'ok' }
        : $verb eq 'subcopy'   ? do { copy_subvolume_verb(@arguments); 'ok' }
        : $verb eq 'subdelete' ? do { remove_subvolume_verb(@arguments); 'ok' }
        : $verb eq 'userns' ? 'pid ' . userns_verb()
        : $verb eq 'seat'   ? 'pid ' . take_seat(@arguments)
        : $verb eq 'leave'  ? do { delete $seats{ $arguments[0] }; 'ok' }
        :                     die "unknown verb\n";
    };
    answer($id, defined $result ? $result : "failed $@");
}

sub reap {
    while ((my $pid = waitpid -1, WNOHANG) > 0) {
        my $status = $?;
        my $id = delete $child{$pid};
        delete $seats{$pid};
        if (defined $id) { answer($id, "exit $status") }
        elsif (%entering) { $ended{$pid} = $status }
    }
}

my $buffer = '';
while (1) {
    my $ready = '';
    vec($ready, fileno(STDIN), 1) = 1;
    vec($ready, fileno($wake_reader), 1) = 1;
    vec($ready, $_, 1) = 1 for keys %entering;
    my $found = select $ready, undef, undef, %entering ? 1 : undef;
    finish_entry($_, 'it did not get into the workspace in time') for grep { $entering{$_}{until} < time } keys %entering;
    %ended = () if !%entering;
    next if $found <= 0;
    if (vec($ready, fileno($wake_reader), 1)) { sysread $wake_reader, my $ignored, 4096; reap() }
    follow_entry($_) for grep { vec($ready, $_, 1) } keys %entering;
    next if !vec($ready, fileno(STDIN), 1);
    my $got = sysread STDIN, $buffer, 65536, length $buffer;
    next if !defined $got && $! == EINTR;
    last if !$got;
    while (length $buffer >= 4) {
        my $length = unpack 'N', $buffer;
        last if length $buffer < 4 + $length;
        my $frame = substr $buffer, 4, $length;
        substr($buffer, 0, 4 + $length) = '';
        serve(split /\0/, $frame, -1);
    }
}
