#!/usr/bin/perl
# Starts the init processes of workspaces, each in user, pid, mount, network, ipc, uts and cgroup namespaces of its own.
# One is pre-warmed: it waits for its order and lacks only the root file system.
#
# This program is separate from launcher.pl because an init process is a fork of it, so it never holds the data of a
# command. Arguments: the seccomp filter, an empty folder to mount on, the search program or an empty string, bytes of
# shared memory. perl/requests.pl describes the protocol. Runs as root of the supervisor's user namespace.
use strict;
use warnings;
use POSIX qw(:errno_h);

BEGIN {
    my ($folder) = __FILE__ =~ m{^(.*)/};
    require "$folder/perl/$_.pl" for qw(kernel requests mounts workspace-root);
}

my ($filter_path, $stage, $search_program, $shared_memory_bytes) = @ARGV;
my $filter = read_filter($filter_path);
our %followed;
my %shares = map { ($_ => share_of(read_number("/proc/sys/fs/inotify/max_user_$_"))) } qw(instances watches);

sub read_number {
    my ($path) = @_;
    open(my $file, '<', $path) or return 0;
    return int <$file>;
}
sub share_of { my ($all) = @_; return $all >= 64 ? int($all / 8) : 8 }

use constant { ANSWER_SECONDS => 20, SIOCSIFFLAGS => 0x8914, IFF_UP => 1 };

my %prewarmed;    # pid of a waiting process => its state
my %held;         # pid of the init process of a workspace => number of its hold request

# Answers with the pid of a process that waits for its order.
sub prewarm_verb {
    my ($id, $cgroups, $uid_map, $gid_map) = @_;
    pipe(my $report_reader, my $report) or fail('pipe');
    pipe(my $order, my $order_writer) or fail('pipe');
    my $between = fork() // fail('fork');
    if ($between == 0) {
        forget_requests();
        %prewarmed = ();
        close $_ for $order_writer, $report_reader;
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', '/dev/null');
        open(STDERR, '>', '/dev/null');
        eval { make_init_process($order, $report, [ split /\n/, $cgroups ], $uid_map, $gid_map); 1 };
        syswrite $report, "failed $@";
        POSIX::_exit(1);
    }
    POSIX::fcntl($report_reader, POSIX::F_SETFL(), POSIX::O_NONBLOCK());
    my $slot = { waiting => $id, until => time + ANSWER_SECONDS, order => $order_writer, reader => $report_reader, text => '' };
    $followed{ fileno $report_reader } = sub { follow_report($slot) };
    $prewarmed{"between $between"} = $slot;
    $slot->{key} = "between $between";
}

sub follow_report {
    my ($slot) = @_;
    my $got = sysread $slot->{reader}, $slot->{text}, 4096, length $slot->{text};
    return if !defined $got && ($! == EINTR || $! == EAGAIN);
    while ($slot->{text} =~ s/^([^\n]*)\n//) { take_report($slot, $1) }
    return if $got;
    delete $followed{ fileno $slot->{reader} };
    give_up($slot, 'its init process has ended') if defined $slot->{waiting};
}

sub take_report {
    my ($slot, $line) = @_;
    return give_up($slot, $1) if $line =~ /^failed (.*)/;
    if ($line =~ /^pid (\d+)$/) {
        delete $prewarmed{ $slot->{key} };
        $slot->{pid} = $slot->{key} = $1;
        $prewarmed{$1} = $slot;
    }
    else { $slot->{reached} = $line }
    # The pid and "staged" come from two processes, in either order; "ready" follows. The answer goes to the latest
    # request.
    return if !defined $slot->{pid} || !defined $slot->{reached};
    my $id = delete $slot->{waiting};
    return if !defined $id;
    answer($id, "pid $slot->{pid}");
    return if $slot->{reached} ne 'ready';
    delete $prewarmed{ $slot->{key} };
    $held{ $slot->{pid} } = $id;
}

sub give_up {
    my ($slot, $problem) = @_;
    delete $prewarmed{ $slot->{key} };
    delete $followed{ fileno $slot->{reader} };
    kill 'KILL', $slot->{pid} if defined $slot->{pid};
    my $id = delete $slot->{waiting};
    answer($id, "failed $problem") if defined $id;
}

# Turns the process into the init process of a workspace. Answers once the workspace can be entered.
sub hold_verb {
    my ($id, $pid, @order) = @_;
    my $slot = $prewarmed{$pid};
    return answer($id, 'failed its pre-warmed process has ended') if !$slot;
    @$slot{qw(waiting until)} = ($id, time + ANSWER_SECONDS);
    my $order = join "\0", @order;
    write_all(delete $slot->{order}, pack('N', length $order) . $order);
}

# Closing the pipe for its order makes the process exit.
sub discard_verb {
    my ($id, $pid) = @_;
    my $slot = delete $prewarmed{$pid};
    delete $slot->{order} if $slot;
    answer($id, 'ok');
}

# Joining a cgroup waits for an RCU grace period. A pre-warmed process has that behind it.
sub make_init_process {
    my ($order, $report, $cgroups, $uid_map, $gid_map) = @_;
    join_group($_) for @$cgroups;
    enter_own_namespaces($uid_map, $gid_map);
    become_root_inside();
    my $pid = clone_sibling();
    if ($pid == 0) {
        eval { be_init_process($order, $report, $cgroups); 1 };
        syswrite $report, "failed $@";
        POSIX::_exit(1);
    }
    syswrite $report, "pid $pid\n";
    POSIX::_exit(0);
}

sub enter_own_namespaces {
    my ($uid_map, $gid_map) = @_;
    my $target = $$;
    pipe(my $reader, my $writer) or fail('pipe');
    # The id maps must be written by a process in the parent namespace.
    my $mapper = fork() // fail('fork');
    if ($mapper == 0) {
        close $writer;
        sysread $reader, my $byte, 1 or POSIX::_exit(1);
        my $is_done = eval { write_file("/proc/$target/uid_map", $uid_map); write_file("/proc/$target/gid_map", $gid_map); 1 };
        POSIX::_exit($is_done ? 0 : 1);
    }
    my $namespaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    system_call('unshare', $namespaces) == 0 or fail('namespaces');
    syswrite $writer, 'm';
    waitpid $mapper, 0;
    $? == 0 or die "the ids of its user namespace were refused\n";
    # A share of the machine's per-user inotify limits. All workspaces together stay below them.
    for my $name (keys %shares) { write_file("/proc/sys/user/max_inotify_$name", $shares{$name}) }
}

sub write_file {
    my ($path, $text) = @_;
    open(my $file, '>', $path) or fail("file $path");
    syswrite($file, $text) or fail("file $path");
}

# Never returns. No process in the workspace can signal, stop or trace it, and the kernel reaps orphans itself. It is
# our own program, whatever the image holds, and it keeps no descriptor open.
sub be_init_process {
    my ($order, $report, $cgroups) = @_;
    $0 = 'castellan-seat';
    system_call('prctl', PR_SET_PDEATHSIG, POSIX::SIGKILL(), 0, 0, 0);
    make_mounts_followers();
    my $folders = make_own_folders($stage, $search_program, $shared_memory_bytes, $cgroups);
    raise_loopback();
    syswrite $report, "staged\n";
    take_order(read_order($order), $folders);
    $0 = 'castellan-init';
    $SIG{CHLD} = 'IGNORE';
    limit_user_counts();
    drop_capabilities(0);
    install_filter($filter);
    system_call('prctl', PR_SET_DUMPABLE, 0, 0, 0, 0);
    syswrite $report, "ready\n";
    system_call('close_range', 0, 0xffffffff, 0);
    select undef, undef, undef, undef while 1;
}

# If the writer exits before it sends an order, this process exits too.
sub read_order {
    my ($reader) = @_;
    return read_bytes($reader, unpack 'N', read_bytes($reader, 4));
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

# The fields of an order: host name, root, number of bind mounts; for each of those the source, the path below it or an
# empty string, the target, and "rw" or "ro"; then pairs of source and target for files that are mounted read-only.
sub take_order {
    my ($order, $folders) = @_;
    my ($hostname, $root, $count, @binds) = split /\0/, $order, -1;
    my @file_fields = splice @binds, 4 * $count;
    my @files;
    while (my @file = splice @file_fields, 0, 2) { push @files, \@file }
    system_call('sethostname', $hostname, length $hostname) == 0 or fail('host name');
    attach(detached_copy($root, ATTR_NOSUID | ATTR_NODEV), $stage);
    my @trees;
    while (my ($source, $beneath, $target, $mode) = splice @binds, 0, 4) {
        my $attributes = ATTR_NOSUID | ATTR_NODEV | ($mode eq 'rw' ? 0 : ATTR_RDONLY);
        my $tree = $beneath eq '' ? detached_copy($source, $attributes) : detached_beneath($source, $beneath, $attributes);
        push @trees, [ $tree, $target ];
    }
    my @file_mounts = map { [ detached_copy($_->[0], ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV), $_->[1] ] } @files;
    change_root($stage);
    push @trees, map { [ $folders->{$_}, $_ ] } sort keys %$folders;
    for (@trees) {
        my ($tree, $target) = @$_;
        require_path($target);
        attach($tree, $target);
    }
    attach(@$_) for @file_mounts;
    -e '/bin/sh' or die "there is no shell. An image needs /bin/sh\n";
}

sub raise_loopback {
    socket(my $socket, 2, 2, 0) or fail('socket');
    my $request = pack 'a16 s x22', 'lo', IFF_UP;
    defined ioctl($socket, SIOCSIFFLAGS, $request) or fail('loopback');
}

my %verbs = (prewarm => \&prewarm_verb, hold => \&hold_verb, discard => \&discard_verb);
serve_requests(
    sub {
        my ($id, $verb, @arguments) = @_;
        my $do = $verbs{$verb} // sub { die "unknown verb\n" };
        eval { $do->($id, @arguments); 1 } or answer($id, "failed $@");
    },
    sub {
        my ($pid, $status) = @_;
        my $id = delete $held{$pid};
        answer($id, "exit $status") if defined $id;
        my $slot = $prewarmed{$pid};
        return if !$slot;
        # The number may soon be another's. Its last report may not have been read, and says why it ended.
        delete $slot->{pid};
        follow_report($slot);
        give_up($slot, 'its init process has ended');
    },
    sub {
        for (values %prewarmed) { give_up($_, 'it did not come up in time') if defined $_->{waiting} && $_->{until} < time }
    },
);
