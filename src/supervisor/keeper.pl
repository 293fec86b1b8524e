#!/usr/bin/perl
# Keeps the user namespace of a supervisor open until it is killed, for half a minute at most. The kernel charges
# per-user resources to the creator of the namespace as well: with an argument, that is this user id instead of the
# machine's root.
use strict;
use warnings;
no warnings 'portable';

BEGIN {
    my ($folder) = __FILE__ =~ m{^(.*)/};
    require "$folder/perl/kernel.pl";
}
if (defined(my $maker = shift)) {
    open(my $status, '<', '/proc/self/status') or fail('status');
    my ($permitted) = map { /^CapPrm:\s+([0-9a-f]+)/ ? hex $1 : () } <$status>;
    system_call('setresgid', -1, int $maker, -1) == 0 or fail('setresgid');
    system_call('setresuid', -1, int $maker, -1) == 0 or fail('setresuid');
    # The process keeps root's capabilities, so this works where unprivileged users may not create namespaces.
    set_capabilities($permitted);
}
system_call('unshare', CLONE_NEWUSER) == 0 or fail('user namespace');
sleep 30;
