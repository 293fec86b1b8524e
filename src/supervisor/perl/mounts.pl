# The descriptor-based mount API (Linux 5.12). A mount is created detached, where the host's files are reachable, and
# attached where only the workspace's files are. So no symbolic link in the workspace can lead to the host.
use strict;
use warnings;
use Fcntl qw(O_DIRECTORY);
use POSIX qw(:errno_h);

use constant {
    AT_FDCWD => -100, AT_EMPTY_PATH => 0x1000, AT_RECURSIVE => 0x8000, OPEN_TREE_CLONE => 1, OPEN_TREE_CLOEXEC => 0x80000,
    MOVE_MOUNT_F_EMPTY_PATH => 4, MOUNT_ATTR_SIZE => 32, ATTR_RDONLY => 1, ATTR_NOSUID => 2, ATTR_NODEV => 4,
    ATTR_NOEXEC => 8, ATTR_IDMAP => 0x100000, FSCONFIG_SET_FLAG => 0, FSCONFIG_SET_STRING => 1, FSCONFIG_CMD_CREATE => 6, FSMOUNT_CLOEXEC => 1,
    O_PATH => 0x200000, O_CLOEXEC => 0x80000, RESOLVE_NO_MAGICLINKS => 2,
    RESOLVE_NO_SYMLINKS => 4, RESOLVE_BENEATH => 8,
    MS_REC => 0x4000, MS_PRIVATE => 0x40000, MS_SLAVE => 0x80000, MNT_DETACH => 2,
};

sub set_attributes {
    my ($tree, $flags, $attributes) = @_;
    my $set = pack 'Q4', $attributes, 0, 0, 0;
    system_call('mount_setattr', $tree, '', AT_EMPTY_PATH | $flags, $set, MOUNT_ATTR_SIZE) == 0 or fail('mount_setattr');
}

# Makes a detached mount an id-mapped one. Returns false if its file system does not support that.
sub map_ids {
    my ($tree, $flags, $namespace) = @_;
    my $set = pack 'Q4', ATTR_IDMAP, 0, 0, fileno $namespace;
    return system_call('mount_setattr', $tree, '', AT_EMPTY_PATH | $flags, $set, MOUNT_ATTR_SIZE) == 0;
}

# A descriptor of a user namespace with these id maps. No process remains in it.
sub mapped_user_namespace {
    my ($uid_map, $gid_map) = @_;
    pipe(my $ready_reader, my $ready) or fail('pipe');
    pipe(my $done_reader, my $done) or fail('pipe');
    my $pid = fork() // fail('fork');
    if ($pid == 0) {
        close $done;
        POSIX::_exit(1) if system_call('unshare', CLONE_NEWUSER) != 0;
        syswrite $ready, 'r';
        sysread $done_reader, my $byte, 1;
        POSIX::_exit(0);
    }
    close $ready;
    sysread $ready_reader, my $byte, 1 or fail('user namespace');
    for ([ 'uid_map', $uid_map ], [ 'gid_map', $gid_map ]) {
        my ($name, $map) = @$_;
        open(my $file, '>', "/proc/$pid/$name") or fail($name);
        syswrite $file, $map or fail($name);
    }
    open(my $namespace, '<', "/proc/$pid/ns/user") or fail('user namespace');
    close $done;
    waitpid $pid, 0;
    return $namespace;
}

# A recursive copy of the mount at a path.
sub detached_copy {
    my ($path, $attributes) = @_;
    my $tree = system_call('open_tree', AT_FDCWD, $path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    $tree >= 0 or fail("mount of $path");
    set_attributes($tree, AT_RECURSIVE, $attributes) if $attributes;
    return $tree;
}

# A copy of a folder below another, resolved without following links: a process that can write there may replace it by a
# symbolic link at any time.
sub detached_beneath {
    my ($folder, $beneath, $attributes) = @_;
    my $root = POSIX::open($folder, O_PATH | O_DIRECTORY) // fail("folder $folder");
    my $how = pack 'Q3', O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    my $found = system_call('openat2', $root, $beneath, $how, length $how);
    $found >= 0 or die "the folder $beneath to mount is not there, or a link leads to it: $!\n";
    my $flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH;
    my $tree = system_call('open_tree', $found, '', $flags);
    $tree >= 0 or fail("mount of $beneath");
    POSIX::close($_) for $root, $found;
    set_attributes($tree, AT_RECURSIVE, $attributes);
    return $tree;
}

# An option without a value is a flag.
sub detached_new {
    my ($type, $attributes, @options) = @_;
    my $context = system_call('fsopen', $type, 1);
    $context >= 0 or fail("file system $type");
    for (@options) {
        my ($key, $value) = split /=/, $_, 2;
        my $done = defined $value
            ? system_call('fsconfig', $context, FSCONFIG_SET_STRING, $key, $value, 0)
            : system_call('fsconfig', $context, FSCONFIG_SET_FLAG, $key, 0, 0);
        $done == 0 or fail("file system $type, $key");
    }
    system_call('fsconfig', $context, FSCONFIG_CMD_CREATE, 0, 0, 0) == 0 or fail("file system $type");
    my $tree = system_call('fsmount', $context, FSMOUNT_CLOEXEC, $attributes);
    $tree >= 0 or fail("file system $type");
    POSIX::close($context);
    return $tree;
}

sub attach {
    my ($tree, $target) = @_;
    system_call('move_mount', $tree, '', AT_FDCWD, $target, MOVE_MOUNT_F_EMPTY_PATH) == 0 or fail("mount on $target");
    POSIX::close($tree);
}

# Mount events of the supervisor propagate to this namespace, but not back.
sub make_mounts_followers { system_call('mount', 'none', '/', 0, MS_REC | MS_SLAVE, 0) == 0 or fail('mounts') }

sub make_mounts_private { system_call('mount', 'none', '/', 0, MS_REC | MS_PRIVATE, 0) == 0 or fail('private mounts') }

# Makes the mount at $path the root, and detaches the old root.
sub change_root {
    my ($path) = @_;
    chdir $path or fail("root $path");
    system_call('pivot_root', '.', '.') == 0 or fail('pivot_root');
    system_call('umount2', '.', MNT_DETACH) == 0 or fail('old root');
    chdir '/' or fail('root');
}

# Creates the folder and its parents.
sub require_path {
    my ($path) = @_;
    my $at = '';
    for my $name (grep { $_ ne '' } split m{/}, $path) {
        $at .= "/$name";
        require_folder($at) if !-d $at;
    }
    require_folder($path);
}

# A workspace may have put anything in place of a mount point.
sub require_folder {
    my ($path) = @_;
    return if lstat($path) && -d _;
    unlink $path;
    mkdir $path, 0755 or fail("folder $path");
}

1;
