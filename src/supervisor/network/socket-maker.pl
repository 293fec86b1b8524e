#!/usr/bin/perl
# Makes sockets in other network namespaces and passes them to the supervisor over the IPC channel that Node gives its
# children. The namespace is that of a workspace, which this process enters for a moment, or the host's, through the
# host-network helper.
#
# A request on standard input is one line: a number, a verb, its arguments.
#   N tcp PID FAMILY               a TCP socket in the network namespace of PID; FAMILY is 4 or 6
#   N listen PID ADDRESS PORT      a TCP socket bound there
#   N datagrams PID ADDRESS PORT   a UDP socket bound there
#   N host VERB ...                the answer of the host-network helper
# The arguments are the path of that helper's socket and how long to wait for it, in milliseconds. Exits at the end of
# standard input. Runs as root of the supervisor's user namespace.
use strict;
use warnings;
use Errno;
use File::Basename qw(dirname);
use POSIX qw(:sys_wait_h);
use Socket qw(:DEFAULT inet_pton);
require(dirname($0) . '/descriptors.pl');

use constant {
    CLONE_NEWNET => 0x40000000, SIOCGIFFLAGS => 0x8913, SIOCSIFFLAGS => 0x8914, IFF_UP => 1, POLL_MS => 20,
    ANSWER_SECONDS => 30,
};
my %setns = (x86_64 => 308, aarch64 => 268);
my $setns = $setns{ (POSIX::uname())[4] } // die "socket-maker: unknown machine\n";
my ($host_network, $wait_ms) = @ARGV;
open(my $channel, '+<&=', $ENV{NODE_CHANNEL_FD}) or die "channel: $!\n";
open(my $own_network, '<', '/proc/self/ns/net') or die "network: $!\n";
# Children are reaped by the kernel, because nothing waits for them.
$SIG{CHLD} = 'IGNORE';
$SIG{PIPE} = 'IGNORE';

sub failed { my ($id, $problem) = @_; my ($code) = $problem =~ /^(E[A-Z0-9]+)/; send_with($channel, qq({"id":$id,"failed":") . ($code // 'EIO') . qq("}\n)) }

# The message format in which Node passes handles to its children.
sub give {
    my ($id, $type, $socket) = @_;
    my $more = $type eq 'dgram.Socket' ? '"dgramType":"udp4",' : '';
    send_with($channel, qq({"cmd":"NODE_HANDLE","type":"$type",$more"msg":{"id":$id}}\n), $socket);
}

sub code { my @names = grep { $!{$_} } qw(EADDRINUSE EADDRNOTAVAIL EACCES EPERM EAFNOSUPPORT ENOENT EMFILE); $names[0] // 'EIO' }

# The creator of the namespace may not have brought its loopback device up.
sub raise_loopback {
    socket(my $any, PF_INET, SOCK_DGRAM, 0) or die code();
    my $request = pack 'a16 s x22', 'lo', 0;
    defined ioctl($any, SIOCGIFFLAGS, $request) or die code();
    my $flags = unpack 'x16 s', $request;
    return if $flags & IFF_UP;
    $request = pack 'a16 s x22', 'lo', $flags | IFF_UP;
    defined ioctl($any, SIOCSIFFLAGS, $request) or die code();
}

sub in_network {
    my ($pid, $work) = @_;
    open(my $network, '<', "/proc/$pid/ns/net") or die code();
    syscall($setns, fileno $network, CLONE_NEWNET) == 0 or die code();
    my $result = eval { raise_loopback(); $work->() };
    my $problem = $@;
    # In the wrong namespace it would make the wrong sockets.
    syscall($setns, fileno $own_network, CLONE_NEWNET) == 0 or POSIX::_exit(1);
    die $problem if !defined $result;
    return $result;
}

sub bound {
    my ($kind, $address, $port) = @_;
    socket(my $socket, PF_INET, $kind, 0) or die code();
    setsockopt($socket, SOL_SOCKET, SO_REUSEADDR, 1) if $kind == SOCK_STREAM;
    bind($socket, pack_sockaddr_in($port, inet_pton(AF_INET, $address))) or die code();
    return $socket;
}

# In a child, because connecting may take long.
sub ask_host {
    my ($id, $verb, @words) = @_;
    my $child = fork();
    return if $child;
    die code() if !defined $child;
    my $is_given = eval {
        local $SIG{ALRM} = sub { die "ETIMEDOUT\n" };
        alarm ANSWER_SECONDS;
        my $client;
        my $polls = $wait_ms / POLL_MS;
        until (socket($client, PF_UNIX, SOCK_STREAM, 0) && connect($client, pack_sockaddr_un($host_network))) {
            # The helper starts after this process, and may be restarting.
            die "ENOHOSTNETWORK\n" if $polls-- <= 0;
            select undef, undef, undef, POLL_MS / 1000;
        }
        syswrite $client, join(' ', $verb, @words) . "\n";
        my ($text, $socket) = receive_with($client);
        die "ENOHOSTNETWORK\n" if !defined $text;
        die "$1\n" if $text =~ /^failed (\S+)/;
        if (defined $socket) { give($id, $verb eq 'listen' ? 'net.Native' : 'net.Socket', $socket) }
        else { send_with($channel, qq({"id":$id}\n)) }
        1;
    };
    failed($id, $@) if !$is_given;
    POSIX::_exit(0);
}

sub serve {
    my ($id, $verb, @words) = @_;
    return ask_host($id, @words) if $verb eq 'host';
    my ($pid, $what, $port) = @words;
    if ($verb eq 'tcp') {
        my $family = $what eq '6' ? PF_INET6 : PF_INET;
        give($id, 'net.Socket', in_network($pid, sub { socket(my $socket, $family, SOCK_STREAM, 0) or die code(); $socket }));
    }
    elsif ($verb eq 'listen') { give($id, 'net.Native', in_network($pid, sub { bound(SOCK_STREAM, $what, $port) })) }
    elsif ($verb eq 'datagrams') { give($id, 'dgram.Socket', in_network($pid, sub { bound(SOCK_DGRAM, $what, $port) })) }
    else { die 'EINVAL' }
}

my $requests = '';
while (1) {
    my $ready = '';
    vec($ready, $_, 1) = 1 for 0, fileno $channel;
    next if select($ready, undef, undef, undef) < 0;
    # Node acknowledges each socket; the acknowledgements are ignored.
    if (vec $ready, fileno $channel, 1) { sysread($channel, my $ignored, 65_536) or last }
    next if !vec $ready, 0, 1;
    my $got = sysread STDIN, $requests, 65_536, length $requests;
    next if !defined $got && $!{EINTR};
    last if !$got;
    while ($requests =~ s/^([^\n]*)\n//) {
        my ($id, @request) = split ' ', $1;
        eval { serve($id, @request); 1 } or failed($id, $@);
    }
}
