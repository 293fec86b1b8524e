# System calls that Node and Perl have no function for, and what every process does with them on its way into a
# workspace. Uses only what Debian's perl-base has.
use strict;
use warnings;
no warnings 'portable';
use POSIX qw(:errno_h);

# The columns are x86_64 and aarch64. Newer calls have one number on both.
my %column = (x86_64 => 0, aarch64 => 1);
my %numbers = (
    capset => [ 126, 91 ], clone => [ 56, 220 ], close_range => [ 436, 436 ], fsconfig => [ 431, 431 ],
    fsmount => [ 432, 432 ], fsopen => [ 430, 430 ], mount => [ 165, 40 ], mount_setattr => [ 442, 442 ],
    move_mount => [ 429, 429 ], open_tree => [ 428, 428 ], openat2 => [ 437, 437 ], pivot_root => [ 155, 41 ], prctl => [ 157, 167 ],
    prlimit64 => [ 302, 261 ], sched_setaffinity => [ 203, 122 ], seccomp => [ 317, 277 ], setgroups => [ 116, 159 ], sethostname => [ 170, 161 ],
    setns => [ 308, 268 ], setresgid => [ 119, 149 ], setresuid => [ 117, 147 ], umount2 => [ 166, 39 ],
    unshare => [ 272, 97 ],
);
my $machine = (POSIX::uname())[4];
my $own_column = $column{$machine} // die "no system call numbers for $machine\n";

use constant {
    CLONE_PARENT => 0x8000, CLONE_NEWNS => 0x20000, CLONE_NEWCGROUP => 0x2000000, CLONE_NEWUTS => 0x4000000,
    CLONE_NEWIPC => 0x8000000, CLONE_NEWUSER => 0x10000000, CLONE_NEWPID => 0x20000000, CLONE_NEWNET => 0x40000000,
    PR_SET_PDEATHSIG => 1, PR_SET_DUMPABLE => 4, PR_CAPBSET_DROP => 24, PR_SET_NO_NEW_PRIVS => 38, PR_CAP_AMBIENT => 47,
    PR_CAP_AMBIENT_CLEAR_ALL => 4, SECCOMP_SET_MODE_FILTER => 1, CAPABILITY_VERSION_3 => 0x20080522, CAPABILITIES => 64,
    RLIMIT_CORE => 4, RLIMIT_NPROC => 6, RLIMIT_NOFILE => 7, RLIMIT_MEMLOCK => 8, RLIMIT_SIGPENDING => 11,
    RLIMIT_MSGQUEUE => 12,
};

# Perl passes strings by address, so the arguments are copied into writable ones. A numeric argument must be a number,
# not a string of digits.
sub system_call {
    my ($name, @arguments) = @_;
    return syscall($numbers{$name}[$own_column], @arguments);
}

sub fail { die "$_[0]: $!\n" }

# Never above the hard limit of the supervisor: root of a user namespace cannot raise a limit.
sub limit {
    my ($resource, $wanted) = @_;
    my $now = pack 'QQ', 0, 0;
    syscall($numbers{prlimit64}[$own_column], 0, $resource, 0, $now) == 0 or fail("limit $resource");
    my $hard = (unpack 'QQ', $now)[1];
    my $value = $wanted < $hard ? $wanted : $hard;
    system_call('prlimit64', 0, $resource, pack('QQ', $value, $value), 0) == 0 or fail("limit $resource");
}

# Resources that the kernel counts per user, so that one workspace cannot use up what others of the same user need.
sub limit_user_counts {
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_SIGPENDING, 8192);
    limit(RLIMIT_MSGQUEUE, 819200);
    limit(RLIMIT_MEMLOCK, 8 << 20);
}

sub become_root_inside {
    # Fails where only one id is mapped. There is no other group to drop then.
    system_call('setgroups', 0, 0);
    system_call('setresgid', 0, 0, 0) == 0 or fail('setresgid');
    system_call('setresuid', 0, 0, 0) == 0 or fail('setresuid');
}

sub drop_capabilities {
    my ($kept) = @_;
    for my $capability (0 .. CAPABILITIES - 1) {
        next if $kept >> $capability & 1;
        system_call('prctl', PR_CAPBSET_DROP, $capability, 0, 0, 0) == 0 or $! == EINVAL or fail('bounding set');
    }
    system_call('prctl', PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    set_capabilities($kept);
}

sub set_capabilities {
    my ($set) = @_;
    my ($low, $high) = ($set & 0xffffffff, $set >> 32);
    my $sets = pack 'L6', $low, $low, 0, $high, $high, 0;
    system_call('capset', pack('LL', CAPABILITY_VERSION_3, 0), $sets) == 0 or fail('capset');
}

sub install_filter {
    my ($filter) = @_;
    system_call('prctl', PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 or fail('no_new_privs');
    my $program = pack 'S x6 Q', length($filter) / 8, unpack('Q', pack 'P', $filter);
    system_call('seccomp', SECCOMP_SET_MODE_FILTER, 0, $program) == 0 or fail('seccomp');
}

sub read_filter {
    my ($path) = @_;
    open(my $file, '<:raw', $path) or fail('seccomp filter');
    read($file, my $filter, 65536);
    return $filter;
}

sub join_group {
    my ($path) = @_;
    open(my $members, '>', $path) or fail("join $path");
    syswrite($members, '0') or fail("join $path");
    close $members;
}

# CLONE_PARENT: the child becomes a child of our parent, which reaps it.
sub clone_sibling {
    my $pid = system_call('clone', CLONE_PARENT | POSIX::SIGCHLD(), 0, 0, 0, 0);
    $pid >= 0 or fail('clone');
    return $pid;
}

1;
