#!/usr/bin/perl
# Holds the user namespace of a supervisor open until it is killed, half a minute at most. What the kernel counts for each
# user it also counts for who made the namespace: with an argument that is this user id, not the machine's root.
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
    # Still root's process, with root's rights: a machine on which others make no namespaces lets this one.
    set_capabilities($permitted);
}
system_call('unshare', CLONE_NEWUSER) == 0 or fail('user namespace');
sleep 30;
