# The mounts of a workspace that do not come from its image: /dev, /proc and its control groups. They are made ahead,
# before it is known for which workspace, in a folder that holds no workspace's files.
use strict;
use warnings;

my @device_nodes = qw(null zero full random urandom tty);
my %device_links = (
    fd => '/proc/self/fd', stdin => '/proc/self/fd/0', stdout => '/proc/self/fd/1', stderr => '/proc/self/fd/2',
    core => '/proc/kcore', ptmx => 'pts/ptmx',
);
# Files that reveal the machine: how it started, its memory, keys and devices.
my @hidden_files = qw(
    bootconfig cmdline config.gz interrupts kallsyms kcore key-users keys kmsg latency_stats modules pagetypeinfo
    sched_debug slabinfo timer_list timer_stats vmallocinfo
);
my @hidden_folders = qw(acpi asound scsi);
my @read_only = qw(bus fs irq sys sysrq-trigger);
my @shown_controllers = qw(memory cpu cpuset cpuacct pids);
# The kernel reserves a number of pseudo-terminals for all user namespaces together, 3072 by default.
use constant { TERMINALS_MAX => 256, DEV_BYTES => 65536 };

# Returns detached mounts, by their path in the workspace's root. $stage is an empty folder.
sub make_own_folders {
    my ($stage, $search_program, $shared_memory_bytes, $cgroups) = @_;
    attach(detached_new('tmpfs', ATTR_NOSUID | ATTR_NODEV, 'mode=755', 'size=' . DEV_BYTES), $stage);
    mkdir "$stage/$_", 0755 or fail("folder $_") for qw(dev proc sys);
    make_devices("$stage/dev", $search_program, $shared_memory_bytes);
    make_proc("$stage/proc");
    my %made = map { ("/$_" => detached_copy("$stage/$_", 0)) } qw(dev proc);
    if (@$cgroups) {
        make_control_groups("$stage/sys", $cgroups);
        $made{'/sys'} = detached_copy("$stage/sys", 0);
    }
    system_call('umount2', $stage, MNT_DETACH) == 0 or fail('stage');
    return \%made;
}

sub make_devices {
    my ($dev, $search_program, $shared_memory_bytes) = @_;
    my $own = ATTR_NOSUID | ATTR_NOEXEC;
    # Not noexec, because it holds the search program.
    attach(detached_new('tmpfs', ATTR_NOSUID, 'mode=755', 'size=' . DEV_BYTES), $dev);
    for my $name (@device_nodes) {
        make_empty_file("$dev/$name");
        attach(detached_copy("/dev/$name", $own), "$dev/$name");
    }
    symlink $device_links{$_}, "$dev/$_" or fail("link $_") for keys %device_links;
    mkdir "$dev/$_", 0755 or fail("folder $_") for qw(shm pts);
    my $memory = detached_new('tmpfs', ATTR_NOSUID | ATTR_NODEV, 'mode=1777', "size=$shared_memory_bytes");
    attach($memory, "$dev/shm");
    my @terminals = ('newinstance', 'ptmxmode=0666', 'mode=620', 'max=' . TERMINALS_MAX);
    attach(detached_new('devpts', $own, @terminals), "$dev/pts");
    if ($search_program ne '') {
        mkdir "$dev/castellan", 0755 or fail('folder castellan');
        make_empty_file("$dev/castellan/rg");
        attach(detached_copy($search_program, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV), "$dev/castellan/rg");
    }
    set_read_only($dev);
}

sub make_proc {
    my ($proc) = @_;
    attach(detached_new('proc', ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC), $proc);
    for my $path (map { "$proc/$_" } @read_only) {
        attach(detached_copy($path, ATTR_RDONLY), $path) if -e $path;
    }
    for my $path (map { "$proc/$_" } @hidden_files) {
        attach(detached_copy('/dev/null', ATTR_RDONLY | ATTR_NOSUID | ATTR_NOEXEC), $path) if -e $path;
    }
    for my $path (map { "$proc/$_" } @hidden_folders) {
        attach(detached_new('tmpfs', ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC, 'size=4k'), $path) if -e $path;
    }
}

sub make_empty_file {
    my ($path) = @_;
    open(my $file, '>', $path) or fail("file $path");
}

# Only the mount at the path itself, not the mounts below it.
sub set_read_only {
    my ($path) = @_;
    my $tree = system_call('open_tree', AT_FDCWD, $path, OPEN_TREE_CLOEXEC);
    $tree >= 0 or fail("mount of $path");
    set_attributes($tree, 0, ATTR_RDONLY);
    POSIX::close($tree);
}

# Programs look here for their limits. Read-only.
sub make_control_groups {
    my ($sys, $cgroups) = @_;
    my $own = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC;
    attach(detached_new('tmpfs', ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC, 'mode=755', 'size=' . DEV_BYTES), $sys);
    my $base = "$sys/fs/cgroup";
    mkdir $_, 0755 or fail("folder $_") for "$sys/fs", $base;
    if (-e '/sys/fs/cgroup/cgroup.controllers') { attach(detached_new('cgroup2', $own), $base) }
    else { show_controller($base, $_, $own) for grep { join("\n", @$cgroups) =~ m{^/sys/fs/cgroup/$_/}m } @shown_controllers }
    set_read_only($sys);
}

# Controllers that are mounted together must be mounted together here too, with a link for each name.
sub show_controller {
    my ($base, $name, $attributes) = @_;
    open(my $list, '<', '/proc/self/cgroup') or fail('control groups');
    my ($together) = map { /^\d+:([^:]+):/ && (grep { $_ eq $name } split /,/, $1) ? $1 : () } <$list>;
    return if !defined $together || -e "$base/$together";
    mkdir "$base/$together", 0755 or fail("folder $together");
    attach(detached_new('cgroup', $attributes, split /,/, $together), "$base/$together");
    for (grep { $_ ne $together } split /,/, $together) { symlink $together, "$base/$_" or fail("link $_") }
}

1;
