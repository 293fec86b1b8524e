# Mounts by the calls that have descriptors (Linux 5.12): what is made is nowhere until it is attached, so that it can be
# made where the host's files are and attached where only the workspace's own are. No link in there leads to the host then.
use strict;
use warnings;
use POSIX qw(:errno_h);

use constant {
    AT_FDCWD => -100, AT_EMPTY_PATH => 0x1000, AT_RECURSIVE => 0x8000, OPEN_TREE_CLONE => 1, OPEN_TREE_CLOEXEC => 0x80000,
    MOVE_MOUNT_F_EMPTY_PATH => 4, MOUNT_ATTR_SIZE => 32, ATTR_RDONLY => 1, ATTR_NOSUID => 2, ATTR_NODEV => 4,
    ATTR_NOEXEC => 8, FSCONFIG_SET_FLAG => 0, FSCONFIG_SET_STRING => 1, FSCONFIG_CMD_CREATE => 6, FSMOUNT_CLOEXEC => 1,
    MS_NOSUID => 2, MS_NODEV => 4, MS_REC => 0x4000, MS_PRIVATE => 0x40000, MNT_DETACH => 2,
};

sub set_attributes {
    my ($tree, $flags, $attributes) = @_;
    my $set = pack 'Q4', $attributes, 0, 0, 0;
    system_call('mount_setattr', $tree, '', AT_EMPTY_PATH | $flags, $set, MOUNT_ATTR_SIZE) == 0 or fail('mount_setattr');
}

# A copy of what is at a path, with everything mounted below it.
sub detached_copy {
    my ($path, $attributes) = @_;
    my $tree = system_call('open_tree', AT_FDCWD, $path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    $tree >= 0 or fail("mount of $path");
    set_attributes($tree, AT_RECURSIVE, $attributes) if $attributes;
    return $tree;
}

# Options without a value are flags.
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

sub make_mounts_private { system_call('mount', 'none', '/', 0, MS_REC | MS_PRIVATE, 0) == 0 or fail('private mounts') }

# Leaves everything but what is mounted at $path, which becomes the root.
sub change_root {
    my ($path) = @_;
    chdir $path or fail("root $path");
    system_call('pivot_root', '.', '.') == 0 or fail('pivot_root');
    system_call('umount2', '.', MNT_DETACH) == 0 or fail('old root');
    chdir '/' or fail('root');
}

# A workspace may have put anything in the place of a folder that we mount on.
sub require_folder {
    my ($path) = @_;
    return if lstat($path) && -d _;
    unlink $path;
    mkdir $path, 0755 or fail("folder $path");
}

1;
