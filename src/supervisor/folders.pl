#!/usr/bin/perl
# Mounts the host folders that workspaces may see below MOUNTS, under names derived from their paths.
#
#   FOLDERS=LINES perl folders.pl MOUNTS [UID_BASE]
#
# Each line is "ro PATH" or "rw PATH". A writable folder gets a second name, and only if no other user of the machine
# can enter it: a workspace could otherwise leave a set-user-ID program there for others to run.
#
# With UID_BASE this runs as the machine's root, and each folder is mounted with its owner mapped to the root of the
# workspaces: the owner's files are theirs to read and write, and files that they create belong to the owner. Files of
# others are accessible as to any other user. Without UID_BASE this runs as an ordinary user, whose files the workspaces
# own anyway. A folder that cannot be mounted is skipped with a message.
use strict;
use warnings;
use POSIX ();

BEGIN {
    my ($folder) = __FILE__ =~ m{^(.*)/};
    require "$folder/perl/$_.pl" for qw(kernel mounts);
}
use constant { NAME_CHARS => 16 };

my ($mounts_folder, $uid_base) = @ARGV;

# Whether the folder or one above it denies access to others.
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
    my $target = "$mounts_folder/$name";
    my $tree = detached_copy($path, ATTR_NOSUID | ATTR_NODEV);
    if ($uid_base) {
        my $namespace = mapped_user_namespace("$info[4] $uid_base 1\n", "$info[5] $uid_base 1\n");
        map_ids($tree, 0, $namespace)
            or die "its file system cannot show its files as another's: $!\n";
    }
    mkdir $target, 0755 or fail('folder');
    eval { attach($tree, $target); 1 } or do { my $problem = $@; rmdir $target; die $problem };
}

# Calls the sha256sum program, because perl-base has no digest module.
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
