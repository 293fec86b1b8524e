#!/usr/bin/perl
# Helper of the supervisor that runs as the machine's root. It allocates ranges of user ids, makes id-mapped mounts of
# the supervisor's files for them, and changes the disk quota of a workspace.
#
# Stored files belong to the ids from BASE on, whatever range a workspace has. An id-mapped mount (Linux 5.19 for
# overlays on it) shows them as owned by the range. Only the machine's root may make one.
#
# It starts before the supervisor, in the mount namespace that the supervisor's is a copy of. The socket takes one
# request for each connection:
#   show N [BLOCK]   makes id-mapped mounts at /mnt/ids/N/store and /mnt/ids/N/images in the mount namespace of the peer,
#                    for a new range or for a BLOCK allocated before; answers "ok BLOCK"
#   limit ID BYTES   sets the quota of store/active/ID, which must be a subvolume
# A failure is answered with "failed TEXT". Apart from the mount point, which is the supervisor's own, no path is
# resolved that the supervisor could redirect. A range is taken while this program has an abstract socket of its name
# bound in the host's network namespace, which it has until it exits with the supervisor.
# Arguments: SOCKET BASE RANGES.
use strict;
use warnings;
use Socket qw(AF_UNIX SOCK_STREAM SOL_SOCKET pack_sockaddr_un);
use POSIX qw(:errno_h);
use Fcntl qw(O_RDONLY O_DIRECTORY O_NOFOLLOW);

BEGIN {
    my ($folder) = __FILE__ =~ m{^(.*)/};
    require "$folder/perl/$_.pl" for qw(kernel mounts);
}
use constant { RANGE => 65536, SO_PEERCRED => 17, O_PATH => 0x200000, BACKLOG => 64 };
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

# launch.sh ends this program with the supervisor. The loop condition covers a launch.sh that was killed.
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
        my ($view, $own) = $request =~ /^show (\d{1,9})(?: (\d{1,9}))?\n$/ or die "unknown request\n";
        die "not a range of this supervisor\n" if defined $own && !$taken{$own};
        my $block = $own // take_block();
        show($block, $view, $pid);
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

# `at` is a descriptor number or a file handle.
sub open_below {
    my ($at, $name) = @_;
    my $number = ref $at ? fileno $at : $at;
    sysopen(my $folder, "/proc/self/fd/$number/$name", O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or fail("open $name");
    return $folder;
}

# A bound abstract socket name is exclusive on the whole machine until the process exits.
sub take_block {
    for (; $next <= $ranges; $next++) {
        socket(my $name, AF_UNIX, SOCK_STREAM, 0) or fail('socket');
        next if !bind($name, pack_sockaddr_un("\0castellan-range-" . ($base + $next * RANGE)));
        $taken{$next} = $name;
        return $next++;
    }
    die "no range of user ids is left\n";
}

# In a child, because a process cannot return from another mount namespace.
sub show {
    my ($block, $view, $asker) = @_;
    my $map = id_map($block);
    my $namespace = mapped_user_namespace($map, $map);
    pipe(my $reader, my $writer) or fail('pipe');
    my $pid = fork() // fail('fork');
    if ($pid == 0) {
        my $is_done = eval { attach_views($view, $asker, $namespace); 1 };
        syswrite $writer, $@ if !$is_done;
        POSIX::_exit($is_done ? 0 : 1);
    }
    close $writer;
    my $problem = do { local $/; <$reader> };
    waitpid $pid, 0;
    die $problem if $problem ne '';
}

sub attach_views {
    my ($view, $asker, $namespace) = @_;
    my %trees;
    for my $name (keys %shown) {
        my $flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH;
        my $tree = system_call('open_tree', $shown{$name}, '', $flags);
        $tree >= 0 or fail("mount of $name");
        map_ids($tree, AT_RECURSIVE, $namespace) or fail("ids of $name");
        $trees{$name} = $tree;
    }
    open(my $theirs, '<', "/proc/$asker/ns/mnt") or fail('mount namespace');
    system_call('setns', fileno $theirs, CLONE_NEWNS) == 0 or fail('mount namespace');
    attach($trees{$_}, "/mnt/ids/$view/$_") for keys %trees;
}

# Maps the supervisor's ids to those of the range. Files that the supervisor itself creates there are stored under the
# id after all ranges until it changes their owner.
sub id_map {
    my ($block) = @_;
    my $behind = $base + ($ranges + 1) * RANGE;
    return sprintf "%d %d %d\n%d %d 1\n", $base, $base + $block * RANGE, RANGE, $behind, $base;
}
