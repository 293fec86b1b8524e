#!/usr/bin/perl
# Root's own helper of a supervisor: gives it ranges of user ids that no other has, and shows it its files under them; and
# gives the disk of a workspace that there is another limit. What
# is stored belongs to the ids from the base on, whatever range a workspace has; a mount of the store that maps ids
# (Linux 5.19 for overlays on it) shows it as the range's own. Only the machine's root may make one.
#
# Started in the mount namespace that the supervisor's is a copy of, before it. On the socket, one request for a connection:
# "show N" makes N/store and N/images of the folder /mnt/ids of the asking process such mounts, and answers "ok BLOCK", or
# "failed TEXT"; "show N BLOCK" does so for a range that it was given before. "limit ID BYTES" sets the quota of store/active/ID,
# which must be a subvolume; only its creation could do so without the machine's root. Nothing is looked up by a name that the
# supervisor could lead elsewhere but the place of the mount, which is its own. A range is taken while this program has a name of its own in the host's network namespace, which it has until it
# ends, with the supervisor.
# Arguments: the socket, the base, how many ranges there are.
use strict;
use warnings;
use Socket qw(AF_UNIX SOCK_STREAM SOL_SOCKET pack_sockaddr_un);
use POSIX qw(:errno_h);
use Fcntl qw(O_RDONLY O_DIRECTORY O_NOFOLLOW);

BEGIN {
    my ($folder) = __FILE__ =~ m{^(.*)/};
    require "$folder/perl/$_.pl" for qw(kernel mounts);
}
use constant { RANGE => 65536, SO_PEERCRED => 17, MOUNT_ATTR_IDMAP => 0x100000, O_PATH => 0x200000, BACKLOG => 64 };
use constant { QGROUP_LIMIT => 0x8030942b, MAX_REFERENCED => 1, OWN_QGROUP => 0, SUBVOLUME_INODE => 256 };

my ($socket_path, $base, $ranges) = @ARGV;
my $parent = getppid;
chdir '/mnt/state' or fail('state');
my %shown = map { ($_ => open_path($_)) } qw(store images);
unlink $socket_path, "$socket_path.new";
socket(my $listener, AF_UNIX, SOCK_STREAM, 0) or fail('socket');
bind($listener, pack_sockaddr_un("$socket_path.new")) or fail("bind $socket_path");
listen($listener, BACKLOG) or fail('listen');
chown $base, $base, "$socket_path.new" or fail("chown $socket_path");
rename "$socket_path.new", $socket_path or fail("rename $socket_path");
my %taken;    # number of a block => the name that is held for it
my $next = 1;

# launch.sh ends it with the supervisor; this is for when that was killed.
while (getppid == $parent) {
    vec(my $ready = '', fileno $listener, 1) = 1;
    select($ready, undef, undef, 1) > 0 or next;
    accept(my $peer, $listener) or next;
    my ($pid) = unpack 'i', getsockopt($peer, SOL_SOCKET, SO_PEERCRED);
    my $request = <$peer> // '';
    my $answer = eval {
        if (my ($id, $bytes) = $request =~ /^limit ([0-9a-zA-Z-]{1,64}) (\d{1,18})\n$/) {
            limit_disk($id, $bytes);
            return 'ok';
        }
        my ($place, $own) = $request =~ /^show (\d{1,9})(?: (\d{1,9}))?\n$/ or die "unknown request\n";
        die "not a range of this supervisor\n" if defined $own && !$taken{$own};
        my $block = $own // take_block();
        show($block, $place, $pid);
        "ok $block";
    };
    $answer = "failed $@" =~ s/\n//gr if !defined $answer;
    syswrite $peer, "$answer\n";
}

sub open_path {
    my ($name) = @_;
    return POSIX::open($name, O_PATH) // fail("open $name");
}

sub limit_disk {
    my ($id, $bytes) = @_;
    my $folder = open_below(open_below($shown{store}, 'active'), $id);
    (stat $folder)[1] == SUBVOLUME_INODE or die "$id is no subvolume\n";
    my $arguments = pack 'Q6', OWN_QGROUP, MAX_REFERENCED, $bytes, 0, 0, 0;
    defined ioctl($folder, QGROUP_LIMIT, $arguments) or fail('quota');
}

# `at` is a descriptor's number or a handle.
sub open_below {
    my ($at, $name) = @_;
    my $number = ref $at ? fileno $at : $at;
    sysopen(my $folder, "/proc/self/fd/$number/$name", O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or fail("open $name");
    return $folder;
}

# A process that binds a name in the abstract has it until it ends, on the whole machine.
sub take_block {
    for (; $next <= $ranges; $next++) {
        socket(my $name, AF_UNIX, SOCK_STREAM, 0) or fail('socket');
        next if !bind($name, pack_sockaddr_un("\0castellan-range-" . ($base + $next * RANGE)));
        $taken{$next} = $name;
        return $next++;
    }
    die "no range of user ids is left\n";
}

# In a child, because a process does not come back from another mount namespace.
sub show {
    my ($block, $place, $asker) = @_;
    my $mapper = map_holder($block);
    pipe(my $reader, my $writer) or fail('pipe');
    my $pid = fork() // fail('fork');
    if ($pid == 0) {
        my $is_done = eval { show_in_place($block, $place, $asker, $mapper); 1 };
        syswrite $writer, $@ if !$is_done;
        POSIX::_exit($is_done ? 0 : 1);
    }
    close $writer;
    my $problem = do { local $/; <$reader> };
    waitpid $pid, 0;
    kill 'KILL', $mapper;
    waitpid $mapper, 0;
    die $problem if $problem ne '';
}

sub show_in_place {
    my ($block, $place, $asker, $mapper) = @_;
    open(my $namespace, '<', "/proc/$mapper/ns/user") or fail('user namespace');
    my %trees;
    for my $name (keys %shown) {
        my $flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH;
        my $tree = system_call('open_tree', $shown{$name}, '', $flags);
        $tree >= 0 or fail("mount of $name");
        my $attributes = pack 'Q4', MOUNT_ATTR_IDMAP, 0, 0, fileno $namespace;
        my $done = system_call('mount_setattr', $tree, '', AT_EMPTY_PATH | AT_RECURSIVE, $attributes, MOUNT_ATTR_SIZE);
        $done == 0 or fail("ids of $name");
        $trees{$name} = $tree;
    }
    open(my $theirs, '<', "/proc/$asker/ns/mnt") or fail('mount namespace');
    system_call('setns', fileno $theirs, CLONE_NEWNS) == 0 or fail('mount namespace');
    attach($trees{$_}, "/mnt/ids/$place/$_") for keys %trees;
}

# What is stored as the supervisor's own id is the range's root, and so on. What the supervisor itself makes in there is
# stored under the id behind all ranges until it gives it away.
sub map_holder {
    my ($block) = @_;
    pipe(my $ready, my $made) or fail('pipe');
    my $pid = fork() // fail('fork');
    if ($pid == 0) {
        system_call('unshare', CLONE_NEWUSER) == 0 or POSIX::_exit(1);
        syswrite $made, 'm';
        sleep 60;
        POSIX::_exit(0);
    }
    close $made;
    sysread $ready, my $byte, 1 or fail('user namespace');
    my $behind = $base + ($ranges + 1) * RANGE;
    my $map = sprintf "%d %d %d\n%d %d 1\n", $base, $base + $block * RANGE, RANGE, $behind, $base;
    for my $path ("/proc/$pid/uid_map", "/proc/$pid/gid_map") {
        open(my $file, '>', $path) or fail($path);
        syswrite($file, $map) or fail($path);
    }
    return $pid;
}
