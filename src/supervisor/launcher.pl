#!/usr/bin/perl
# Makes the system calls for the supervisor that Node cannot: mount, umount, mkfifo, subvolumes, copying a tree, and
# running a command in a workspace's namespaces. Forking this small process is also much faster than starting a program
# from a large one. perl/requests.pl describes the protocol. Runs as root of the supervisor's user namespace.
use strict;
use warnings;
no warnings 'portable';
use Fcntl qw(O_RDONLY O_DIRECTORY);
use POSIX qw(:errno_h);

BEGIN {
    my ($folder) = __FILE__ =~ m{^(.*)/};
    require "$folder/perl/$_.pl" for qw(kernel requests mounts);
}
our %followed;

use constant {
    SUBVOLUME_CREATE => 0x50009418, SUBVOLUME_COPY => 0x50009417, SUBVOLUME_DELETE => 0x5000940f,
    SUBVOLUME_WITH_QUOTA => 4, QUOTA_SET_LIMITS => 1, QUOTA_MAX_REFERENCED => 1,
    SAID_CHARS => 300,
};

# The namespaces in the order in which they are entered. The user namespace is last, because entering it drops the
# capabilities that setns requires for the others.
my @namespaces = (
    [ 'cgroup', CLONE_NEWCGROUP ], [ 'ipc', CLONE_NEWIPC ], [ 'uts', CLONE_NEWUTS ], [ 'net', CLONE_NEWNET ],
    [ 'pid', CLONE_NEWPID ], [ 'mnt', CLONE_NEWNS ], [ 'user', CLONE_NEWUSER ],
);

my ($enter_seconds) = @ARGV;
my %child;       # pid of a command => number of its request
my %entering;    # descriptor of its report => a command that is entering
my %ended;       # pid => wait status of a child that exited while others were entering
my %copying;     # pid of a copy => its state

sub mount_verb {
    my ($type, $target, $flags, $data) = @_;
    system_call('mount', $type, $target, $type, int $flags, $data) == 0 or fail("mount of $type");
}

sub umount_verb {
    my ($target) = @_;
    system_call('umount2', $target, MNT_DETACH) == 0 or $! == EINVAL or $! == ENOENT or fail("umount $target");
}

# Mode 0666, because a command has other ids than the supervisor and may reopen its end as /dev/stdout. The folder that
# contains the FIFOs is closed to workspaces.
sub fifo_verb {
    for my $path (@_) {
        POSIX::mkfifo($path, 0600) or fail("mkfifo $path");
        chmod 0666, $path or fail("chmod $path");
    }
}

sub open_folder {
    my ($path) = @_;
    sysopen(my $folder, $path, O_RDONLY | O_DIRECTORY) or fail("open $path");
    return $folder;
}

# btrfs subvolumes. Each is created with its quota and in its tenant's quota group: setting them at creation needs no
# privilege in the initial user namespace, unlike setting them later. store-keeper.pl creates the groups; if there are
# none, the subvolume is created without.
sub subvolume_with {
    my ($request, $path, $source, $limits, $group) = @_;
    my ($parent, $name) = $path =~ m{^(.*)/([^/]+)$};
    my $folder = open_folder($parent);
    for my $groups ([ (1 << 48) + $group ], []) {
        my $quota = pack 'Q4 Q5 Q*', $limits ? QUOTA_SET_LIMITS : 0, scalar @$groups, 0, 0, @{ $limits || [ (0) x 5 ] }, @$groups;
        my $address = unpack 'Q', pack 'P', $quota;
        my $arguments = pack 'q Q Q Q Q Q Q a4040', $source, 0, SUBVOLUME_WITH_QUOTA, length $quota, $address, 0, 0, $name;
        return if defined ioctl $folder, $request, $arguments;
        last if $! != ENOENT && $! != EINVAL;
    }
    fail("subvolume $path");
}

sub make_subvolume_verb {
    my ($path, $bytes, $group) = @_;
    subvolume_with(SUBVOLUME_CREATE, $path, 0, [ QUOTA_MAX_REFERENCED, $bytes, 0, 0, 0 ], $group);
}

sub copy_subvolume_verb {
    my ($path, $source, $group) = @_;
    my $copied = open_folder($source);
    subvolume_with(SUBVOLUME_COPY, $path, fileno $copied, undef, $group);
}

sub remove_subvolume_verb {
    my ($path) = @_;
    my ($parent, $name) = $path =~ m{^(.*)/([^/]+)$};
    my $arguments = pack 'q a4088', 0, $name;
    defined ioctl(open_folder($parent), SUBVOLUME_DELETE, $arguments) or fail("subvolume $path");
}

# Copies a tree that other processes may still change, in a mount namespace that holds nothing else. So a symbolic link
# in the tree cannot lead to the host.
sub copy_verb {
    my ($id, $source, $target, $stage) = @_;
    pipe(my $reader, my $writer) or fail('pipe');
    my $pid = fork() // fail('fork');
    if ($pid == 0) {
        forget_requests();
        open(STDERR, '>&', $writer);
        eval { copy_apart($source, $target, $stage); 1 };
        syswrite STDERR, $@;
        POSIX::_exit(1);
    }
    my $copy = $copying{$pid} = { id => $id, text => '', parts => 2 };
    $followed{ fileno $reader } = sub {
        my $got = sysread $reader, my $said, 4096;
        return if !defined $got && $! == EINTR;
        $copy->{text} = substr $copy->{text} . $said, -SAID_CHARS if $got;
        return if $got;
        delete $followed{ fileno $reader };
        finish_copy($copy);
    };
}

# The exit and the end of the output arrive in any order.
sub finish_copy {
    my ($copy) = @_;
    return if --$copy->{parts};
    answer($copy->{id}, $copy->{status} == 0 ? 'ok' : "failed the copy ended with $copy->{status}: $copy->{text}");
}

sub copy_apart {
    my ($source, $target, $stage) = @_;
    system_call('unshare', CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) == 0 or fail('namespaces');
    make_mounts_private();
    my @trees = (
        [ detached_copy('/usr', ATTR_RDONLY), '/usr' ],
        [ detached_copy($source, ATTR_RDONLY | ATTR_NODEV), '/source/upper' ],
        [ detached_copy($target, ATTR_NODEV), '/target' ],
    );
    attach(detached_new('tmpfs', ATTR_NOSUID | ATTR_NODEV, 'mode=755', 'size=64k'), $stage);
    change_root($stage);
    symlink "usr/$_", "/$_" or fail("link $_") for qw(bin lib lib64);
    mkdir $_, 0755 or fail("folder $_") for qw(/usr /source /source/upper /target);
    attach(@$_) for @trees;
    exec '/usr/bin/cp', '-a', '--reflink=auto', '/source/upper', '/target' or fail('run cp');
}

# Programs that count CPUs see this many. A command may change its affinity: its CPU time is limited by the cgroup.
sub stay_on_processors {
    return if !@_;
    my $mask = '';
    vec($mask, $_, 1) = 1 for @_;
    $mask .= "\0" x (-length($mask) & 7);
    system_call('sched_setaffinity', 0, length $mask, $mask);
}

# Runs in the workspace's namespaces. Never returns.
sub become_command {
    my ($request, $filter) = @_;
    POSIX::setsid();
    limit_user_counts();
    limit(RLIMIT_NOFILE, $request->{files_max});
    limit(RLIMIT_NPROC, $request->{processes_max}) if $request->{processes_max} > 0;
    stay_on_processors(@{ $request->{processors} });
    become_root_inside();
    chdir $request->{workdir} or fail("workdir $request->{workdir}");
    drop_capabilities($request->{capabilities});
    install_filter($filter);
    %ENV = ();
    for (@{ $request->{environment} }) { my ($name, $value) = split /=/, $_, 2; $ENV{$name} = $value }
    { no warnings 'exec'; exec { $request->{argv}[0] } @{ $request->{argv} } }
    fail("run $request->{argv}[0]");
}

# Enters the namespaces and starts the command as a child of the launcher. Writes the command's pid to $report.
sub enter_and_clone {
    my ($request, $report) = @_;
    system_call('prctl', PR_SET_DUMPABLE, 0, 0, 0, 0);
    join_group($_) for @{ $request->{cgroups} };
    my $filter = read_filter($request->{filter});
    open(STDIN, '<', $request->{stdin}) or fail('stdin');
    open(STDOUT, '>', $request->{stdout}) or fail('stdout');
    open(STDERR, '>', $request->{stderr}) or fail('stderr');
    my @open = map {
        open(my $handle, '<', "/proc/$request->{pid}/ns/$_->[0]") or fail("namespace $_->[0]");
        [ $handle, @$_ ]
    } @namespaces;
    for (@open) { system_call('setns', fileno $_->[0], $_->[2]) == 0 or fail("enter $_->[1]") }
    my $pid = clone_sibling();
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
    my ($pid, $stdin, $stdout, $stderr, $workdir, $capabilities, $processes_max, $files_max, $filter, $cgroups, $processors, $argc,
        @rest) = @_;
    return {
        pid => $pid, stdin => $stdin, stdout => $stdout, stderr => $stderr, workdir => $workdir,
        capabilities => hex $capabilities, processes_max => int $processes_max, files_max => int $files_max,
        filter => $filter, cgroups => [ split /\n/, $cgroups ],
        processors => [ split /,/, $processors ], argv => [ splice @rest, 0, $argc ],
        environment => \@rest,
    };
}

# Does not wait: processes of a workspace can stop a command that is entering, and other workspaces must not wait for
# that.
sub enter_verb {
    my ($id, @fields) = @_;
    my $request = parse_enter(@fields);
    pipe(my $reader, my $writer) or fail('pipe');
    my $between = fork() // fail('fork');
    if ($between == 0) {
        forget_requests();
        eval { enter_and_clone($request, $writer); 1 };
        syswrite $writer, "failed $@";
        POSIX::_exit(126);
    }
    my $key = fileno $reader;
    $followed{$key} = sub { follow_entry($key) };
    $entering{$key} = { id => $id, reader => $reader, text => '', until => time + $enter_seconds, between => $between };
}

# Reads the report of a command that is entering. Its exec closes the last write end of the pipe.
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
    delete $followed{$key};
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
    # It may have exited before its pid was known.
    if (defined(my $status = delete $ended{$pid})) { answer($id, "exit $status") }
    else { $child{$pid} = $id }
}

my %verbs = (
    mount => \&mount_verb, umount => \&umount_verb, fifo => \&fifo_verb, subvolume => \&make_subvolume_verb, subcopy => \&copy_subvolume_verb,
    subdelete => \&remove_subvolume_verb,
);
# These send their answer later.
my %slow_verbs = (enter => \&enter_verb, copy => \&copy_verb);
serve_requests(
    sub {
        my ($id, $verb, @arguments) = @_;
        my $is_done = eval {
            if (my $slow = $slow_verbs{$verb}) { $slow->($id, @arguments) }
            else { ($verbs{$verb} // die "unknown verb\n")->(@arguments); answer($id, 'ok') }
            1;
        };
        answer($id, "failed $@") if !$is_done;
    },
    sub {
        my ($pid, $status) = @_;
        if (defined(my $id = delete $child{$pid})) { answer($id, "exit $status") }
        elsif (my $copy = delete $copying{$pid}) { $copy->{status} = $status; finish_copy($copy) }
        elsif (%entering) { $ended{$pid} = $status }
    },
    sub {
        finish_entry($_, 'it did not get into the workspace in time') for grep { $entering{$_}{until} < time } keys %entering;
        %ended = () if !%entering;
    },
);
