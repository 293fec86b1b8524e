#!/usr/bin/perl
# Puts the folders of the host that workspaces may see where the supervisor finds them, under names made of their paths.
#
#   FOLDERS=LINES perl folders.pl PLACE [UID_BASE]
#
# Each line is "ro PATH" or "rw PATH". What may be written has a second name, and only where no other user of the machine can
# enter: a workspace could leave a program there that lends its owner's rights to the process that starts it.
#
# With UID_BASE this is the machine's root, and who owns a folder is shown as the workspaces' own root: what that owner has is
# theirs to read and to write, and what they make is that owner's. What others have there they see as other users do. Without
# it this is an ordinary user, whose files are the workspaces' own anyway. One that cannot be shown is left out and told of.
use strict;
use warnings;
use POSIX ();

BEGIN {
    my ($folder) = __FILE__ =~ m{^(.*)/};
    require "$folder/perl/$_.pl" for qw(kernel mounts);
}
use constant { ATTR_IDMAP => 0x100000, NAME_CHARS => 16 };

my ($place, $uid_base) = @ARGV;

# A descriptor of a user namespace in which the one id is another; nobody is in it any more afterwards.
sub user_namespace {
    my ($uid, $gid) = @_;
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
    for (["uid_map", $uid], ["gid_map", $gid]) {
        open(my $map, '>', "/proc/$pid/$_->[0]") or fail($_->[0]);
        syswrite $map, "$_->[1] $uid_base 1\n" or fail($_->[0]);
    }
    open(my $namespace, '<', "/proc/$pid/ns/user") or fail('user namespace');
    close $done;
    waitpid $pid, 0;
    return $namespace;
}

# Whether some folder on the way to it, or it itself, is shut to others.
sub is_closed {
    my ($path) = @_;
    for (my $at = $path; ; $at =~ s{/[^/]*$}{}) {
        my $mode = (stat($at eq '' ? '/' : $at))[2] // return 0;
        return 1 if !($mode & 0001);
        return 0 if $at eq '';
    }
}

sub show {
    my ($path, $name) = @_;
    my @info = stat $path or fail('it cannot be found');
    -d _ or die "it is not a folder\n";
    my $target = "$place/$name";
    my $tree = detached_copy($path, ATTR_NOSUID | ATTR_NODEV);
    if ($uid_base) {
        my $namespace = user_namespace($info[4], $info[5]);
        my $set = pack 'Q4', ATTR_IDMAP, 0, 0, fileno $namespace;
        system_call('mount_setattr', $tree, '', AT_EMPTY_PATH, $set, MOUNT_ATTR_SIZE) == 0
            or die "its file system cannot show its files as another's: $!\n";
    }
    mkdir $target, 0755 or fail('folder');
    eval { attach($tree, $target); 1 } or do { my $problem = $@; rmdir $target; die $problem };
}

# By its program: perl-base has no module for it.
sub digest {
    my ($text) = @_;
    local $ENV{TEXT} = $text;
    return `printf %s "\$TEXT" | sha256sum`;
}

my %shown;
for (split /\n/, $ENV{FOLDERS}) {
    my ($mode, $path) = /^(ro|rw) (.+)/ or next;
    my $name = substr digest($path), 0, NAME_CHARS;
    eval { $shown{$name}++ or show($path, $name); 1 } or warn "folders: $path is not shown to workspaces: $@";
    next if $mode ne 'rw' || $shown{"$name.rw"}++;
    chomp(my $real = do { local $ENV{TEXT} = $path; `readlink -f -- "\$TEXT"` });
    eval { is_closed($real) or die "other users may enter it; chmod o-x it\n"; show($path, "$name.rw"); 1 }
        or warn "folders: $path is not shown to workspaces for writing: $@";
}
