#!/usr/bin/perl
# Makes the first processes of workspaces, each in user, pid, mount, network, ipc, uts and control group namespaces of its
# own. One waits in stock for its order with all of that behind it; then it only lacks its root file system.
#
# This program is apart from launcher.pl because a first process is a copy of it: it never sees what a command is given.
# Arguments: the seccomp filter, an empty folder to mount on, the program that searches or nothing, bytes of shared memory.
# How it is asked is in perl/requests.pl. Runs as root of the supervisor's user namespace.
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

my %seats;    # pid of a first process => what is known of it
my %held;     # pid of a first process with a workspace => number of the request that gave it one

# Answers with the pid of a first process that waits for its order.
sub seat_verb {
    my ($id, $cgroups, $uid_map, $gid_map) = @_;
    pipe(my $report_reader, my $report) or fail('pipe');
    pipe(my $order, my $order_writer) or fail('pipe');
    my $between = fork() // fail('fork');
    if ($between == 0) {
        forget_requests();
        %seats = ();
        close $_ for $order_writer, $report_reader;
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', '/dev/null');
        open(STDERR, '>', '/dev/null');
        eval { make_first_process($order, $report, [ split /\n/, $cgroups ], $uid_map, $gid_map); 1 };
        syswrite $report, "failed $@";
        POSIX::_exit(1);
    }
    my $seat = { waiting => $id, until => time + ANSWER_SECONDS, order => $order_writer, reader => $report_reader, text => '' };
    $followed{ fileno $report_reader } = sub { follow_seat($seat) };
    $seats{"between $between"} = $seat;
    $seat->{key} = "between $between";
}

sub follow_seat {
    my ($seat) = @_;
    my $got = sysread $seat->{reader}, $seat->{text}, 4096, length $seat->{text};
    return if !defined $got && $! == EINTR;
    while ($seat->{text} =~ s/^([^\n]*)\n//) { take_report($seat, $1) }
    return if $got;
    delete $followed{ fileno $seat->{reader} };
    give_up($seat, 'its first process has ended') if defined $seat->{waiting};
}

sub take_report {
    my ($seat, $line) = @_;
    return give_up($seat, $1) if $line =~ /^failed (.*)/;
    if ($line =~ /^pid (\d+)$/) {
        delete $seats{ $seat->{key} };
        $seat->{pid} = $seat->{key} = $1;
        $seats{$1} = $seat;
    }
    else { $seat->{reached} = $line }
    # Its pid and "staged" come from two processes, so in either order. Then "ready" comes. The last asker is told.
    return if !defined $seat->{pid} || !defined $seat->{reached};
    my $id = delete $seat->{waiting};
    return if !defined $id;
    answer($id, "pid $seat->{pid}");
    return if $seat->{reached} ne 'ready';
    delete $seats{ $seat->{key} };
    $held{ $seat->{pid} } = $id;
}

sub give_up {
    my ($seat, $problem) = @_;
    delete $seats{ $seat->{key} };
    delete $followed{ fileno $seat->{reader} };
    kill 'KILL', $seat->{pid} if defined $seat->{pid};
    my $id = delete $seat->{waiting};
    answer($id, "failed $problem") if defined $id;
}

# Becomes the first process of a workspace; answers once it can be entered.
sub hold_verb {
    my ($id, $pid, @order) = @_;
    my $seat = $seats{$pid};
    return answer($id, 'failed its place is gone') if !$seat;
    @$seat{qw(waiting until)} = ($id, time + ANSWER_SECONDS);
    my $order = join "\0", @order;
    write_all(delete $seat->{order}, pack('N', length $order) . $order);
}

# The end of what its order would have come by is its own.
sub leave_verb {
    my ($id, $pid) = @_;
    my $seat = delete $seats{$pid};
    delete $seat->{order} if $seat;
    answer($id, 'ok');
}

# To join a group the kernel waits until every processor has passed a quiet point; who is in stock has that behind it.
sub make_first_process {
    my ($order, $report, $cgroups, $uid_map, $gid_map) = @_;
    join_group($_) for @$cgroups;
    enter_own_namespaces($uid_map, $gid_map);
    become_root_inside();
    my $pid = clone_sibling();
    if ($pid == 0) {
        eval { be_first_process($order, $report, $cgroups); 1 };
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
    # A process outside has to write the maps.
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
    # A share of what the machine has for a user: all workspaces together have no more than that.
    for my $name (keys %shares) { write_file("/proc/sys/user/max_inotify_$name", $shares{$name}) }
}

sub write_file {
    my ($path, $text) = @_;
    open(my $file, '>', $path) or fail("file $path");
    syswrite($file, $text) or fail("file $path");
}

# Never returns. Nothing inside can signal, stop or trace it, and what others leave behind the kernel itself collects. It is
# a program of ours, whatever image the workspace has, and holds nothing open.
sub be_first_process {
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

# A process that would have written may be gone before there was an order; then there is nothing to do.
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

# Its name, its root; how many folders of the host there are to be in it, and for each its source, what is wanted below that or
# nothing, where it is to be seen, and whether it may be written; then files that lie over others, read-only.
sub take_order {
    my ($order, $folders) = @_;
    my ($hostname, $root, $count, @binds) = split /\0/, $order, -1;
    my @places = splice @binds, 4 * $count;
    my @files;
    while (my @file = splice @places, 0, 2) { push @files, \@file }
    system_call('sethostname', $hostname, length $hostname) == 0 or fail('host name');
    attach(detached_copy($root, ATTR_NOSUID | ATTR_NODEV), $stage);
    my @trees;
    while (my ($source, $beneath, $target, $mode) = splice @binds, 0, 4) {
        my $attributes = ATTR_NOSUID | ATTR_NODEV | ($mode eq 'rw' ? 0 : ATTR_RDONLY);
        my $tree = $beneath eq '' ? detached_copy($source, $attributes) : detached_beneath($source, $beneath, $attributes);
        push @trees, [ $tree, $target ];
    }
    my @laid_over = map { [ detached_copy($_->[0], ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV), $_->[1] ] } @files;
    change_root($stage);
    push @trees, map { [ $folders->{$_}, $_ ] } sort keys %$folders;
    for (@trees) {
        my ($tree, $target) = @$_;
        require_path($target);
        attach($tree, $target);
    }
    attach(@$_) for @laid_over;
    -e '/bin/sh' or die "there is no shell. An image needs /bin/sh\n";
}

sub raise_loopback {
    socket(my $socket, 2, 2, 0) or fail('socket');
    my $request = pack 'a16 s x22', 'lo', IFF_UP;
    defined ioctl($socket, SIOCSIFFLAGS, $request) or fail('loopback');
}

my %verbs = (seat => \&seat_verb, hold => \&hold_verb, leave => \&leave_verb);
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
        my $seat = delete $seats{$pid};
        give_up($seat, 'its first process has ended') if $seat;
    },
    sub {
        for (values %seats) { give_up($_, 'it did not come up in time') if defined $_->{waiting} && $_->{until} < time }
    },
);
