#!/usr/bin/perl
# Keeps the btrfs image file of the workspaces from filling the disk that it is on. It runs as the machine's root, which
# btrfs quotas require, in the mount namespace of the store, and ends with its parent.
#
#   perl store-keeper.pl STATE RESERVE_BYTES FILE_BYTES SHARE_PERCENT
#
# The file may hold what it already holds plus the free space beyond the reserve. That sum does not change while
# workspaces write; only other users of the disk change it. Quota groups enforce it:
#   2/1      all workspaces; refuses growth while less than the reserve is free
#   1/N      the tenant with number N; at most SHARE_PERCENT of the whole
#   1/65535  data without a tenant; no limit of its own
# A spare file reserves space for the commits of the store; it is released when the disk is nearly full. A nearly full
# file system cannot be shrunk, but quota groups refuse at once, so the file system is only ever grown.
use strict;
use warnings;
use Fcntl qw(O_RDONLY O_DIRECTORY);
use POSIX ();

my ($state, $reserve, $file_bytes, $percent) = @ARGV;
my %statfs_numbers = (x86_64 => 137, aarch64 => 44);
my $machine = (POSIX::uname())[4];
my %fallocate_numbers = (x86_64 => 285, aarch64 => 47);
my $statfs = $statfs_numbers{$machine} or die "store-keeper: no system call numbers for $machine\n";

use constant {
    SIGKILL => 9, ST_RDONLY => 1, PIDFD_OPEN => 434,
    RESIZE => 0x50009403, QGROUP_ASSIGN => 0x40189429, QGROUP_CREATE => 0x4010942a, QGROUP_LIMIT => 0x8030942b,
    QUOTA_RESCAN => 0x4040942c, SYNC => 0x9408, FITRIM => 0xc0185879, MAX_REFERENCED => 1,
    MIB => 1024 * 1024, TENANTS => 64, NOBODY => 65_535,
    # Smaller differences are not worth an ioctl.
    STEP_BYTES => 16 * 1024 * 1024, TRIM_BYTES => 64 * 1024 * 1024, TRIM_SECONDS => 10,
    SPARE_BYTES => 64 * 1024 * 1024, SPARE_AGAIN_BYTES => 256 * 1024 * 1024, SYNC_SECONDS => 10, SHORT_BYTES => 1024 * 1024 * 1024,
};
my $ALL = (2 << 48) + 1;
sub tenant_group { (1 << 48) + $_[0] }

# Without this the mount would outlive the supervisor. The kernel sends no parent-death signal once the parent has
# changed its user, but a pidfd still reports the parent's end.
my $parent = getppid;
my $parent_end = syscall PIDFD_OPEN, $parent, 0;
exit if getppid != $parent || $parent == 1;

sub wait_a_second {
    my $watched = '';
    vec($watched, $parent_end, 1) = 1 if $parent_end >= 0;
    exit if select($watched, undef, undef, 1) > 0 || getppid != $parent;
}

if (open my $score, '>', '/proc/self/oom_score_adj') { print $score '-1000' }
$0 = 'castellan store-keeper';
$| = 1;

my $store = "$state/store";
my $file = "$state/store.btrfs";
sysopen(my $folder, $store, O_RDONLY | O_DIRECTORY) or die "store-keeper: $store: $!\n";

# The fields of struct statfs: type, block size, blocks, free, available, files, free files, id, name length, fragment
# size, flags.
sub disk_space {
    my ($path) = @_;
    my $buffer = "\0" x 128;
    syscall($statfs, $path, $buffer) == 0 or return;
    my (undef, $size, $blocks, $free, $available, undef, undef, undef, undef, undef, $flags) = unpack 'q11', $buffer;
    return { size => $size * $blocks, used => $size * ($blocks - $free), free => $size * $available, flags => $flags };
}

sub limit {
    my ($group, $bytes) = @_;
    my $arguments = pack 'Q6', $group, MAX_REFERENCED, $bytes, 0, 0, 0;
    return defined ioctl $folder, QGROUP_LIMIT, $arguments;
}

sub assign {
    my ($child, $parent) = @_;
    my $arguments = pack 'Q3', 1, $child, $parent;
    ioctl $folder, QGROUP_ASSIGN, $arguments;
}

sub make_groups {
    for my $group ($ALL, map { tenant_group($_) } 1 .. TENANTS, NOBODY) {
        my $arguments = pack 'Q2', 1, $group;
        ioctl $folder, QGROUP_CREATE, $arguments;
    }
    assign(tenant_group($_), $ALL) for 1 .. TENANTS, NOBODY;
    # Subvolumes of earlier versions are in no group.
    for (`btrfs qgroup show -p --raw '$store' 2>/dev/null`) {
        my ($id, $parent) = m{^0/(\d+)\s+\d+\s+\d+\s+(\S+)} or next;
        assign($id, tenant_group(NOBODY)) if $id >= 256 && $parent =~ /^-+$/;
    }
}

sub inconsistent_flag {
    for my $path (glob '/sys/fs/btrfs/*/qgroups/inconsistent') {
        my ($id) = $path =~ m{btrfs/([^/]+)/};
        return $path if `findmnt -n -o UUID '$store' 2>/dev/null` eq "$id\n";
    }
    return;
}

sub read_number {
    my ($path) = @_;
    open my $handle, '<', $path or return 0;
    return 0 + (<$handle> // 0);
}

# Returns freed space to the host, unless that was tried just now.
my ($trimmed_at, $left_untrimmed) = (0, 0);
sub trim {
    my ($held, $used) = @_;
    my $spare = $held - $used;
    return if $spare < TRIM_BYTES || time - $trimmed_at < TRIM_SECONDS || abs($spare - $left_untrimmed) < STEP_BYTES;
    my $range = pack 'Q3', 0, ~0, 0;
    ioctl $folder, FITRIM, $range;
    $trimmed_at = time;
    $left_untrimmed = (stat $file)[12] * 512 - $used;
}

# Removed data counts as free only after a commit, which the kernel delays for up to half a minute.
my ($names_at, $synced_at) = ('', 0);
sub give_back {
    my ($left) = @_;
    my $now = join ' ', map { (stat "$store/$_")[9] // 0 } 'active', 'layers';
    return if $now eq $names_at || ($left > SHORT_BYTES && time - $synced_at < SYNC_SECONDS);
    ioctl $folder, SYNC, 0;
    ($names_at, $synced_at) = ($now, time);
}

# Releases the spare file when little space is left, and allocates it again when there is enough.
sub keep_spare {
    my ($free) = @_;
    my $path = "$state/store.spare";
    my $held = (stat $path)[12] // 0;
    if ($free < SPARE_BYTES) { unlink $path if $held }
    elsif (!$held && $free > SPARE_AGAIN_BYTES && open my $spare, '>', $path) {
        syscall($fallocate_numbers{$machine}, fileno $spare, 0, 0, SPARE_BYTES) == 0 or unlink $path;
    }
}

make_groups();
my $flag = inconsistent_flag();
my ($whole_now, $share_now) = (-1, -1);
my $is_read_only = 0;
while (1) {
    my ($host, $inside) = (disk_space($state), disk_space($store));
    my @info = stat $file;
    if ($host && $inside && @info) {
        my $held = $info[12] * 512;
        keep_spare($host->{free});
        my $allowed = $held + $host->{free} - $reserve;
        $allowed = $file_bytes if $allowed > $file_bytes;
        if ($inside->{flags} & ST_RDONLY) {
            # The kernel made the store read-only because writes to the disk failed. Only a new mount makes it writable.
            warn "store-keeper: the store of the workspaces can no longer be written; the supervisor is ended, so that the next use mounts it anew\n"
                if !$is_read_only++;
            my $first = read_number("$state/supervisor.pid");
            kill SIGKILL, $first if $first > 1 && $host->{free} > MIB;
        }
        if ($allowed >= $inside->{size} + STEP_BYTES) {
            my $arguments = pack 'q a4088', 0, int($allowed / MIB) * MIB;
            ioctl $folder, RESIZE, $arguments;
            $inside = disk_space($store) // $inside;
        }
        my $whole = $allowed < $inside->{size} ? $allowed : $inside->{size};
        $whole = 1 if $whole < $inside->{used} + STEP_BYTES && $allowed < $inside->{size};
        if (abs($whole - $whole_now) >= STEP_BYTES || ($whole == 1) != ($whole_now == 1)) {
            limit($ALL, $whole);
            $whole_now = $whole;
        }
        my $share = int($inside->{size} * $percent / 100);
        if (abs($share - $share_now) >= STEP_BYTES) {
            limit(tenant_group($_), $share) for 1 .. TENANTS;
            $share_now = $share;
        }
        if ($flag && read_number($flag)) {
            my $arguments = "\0" x 64;
            ioctl $folder, QUOTA_RESCAN, $arguments;
        }
        give_back($whole - $inside->{used});
        trim($held, $inside->{used});
    }
    wait_a_second();
}
