# The host-network helper of the supervisor. It runs in the host's network namespace without any capability, and makes
# the sockets that the supervisor cannot make in its own. The argument is the path to listen on. descriptors.pl is
# prepended to this file.
#
# One request line for each connection. The answer is one line, "ok" (with a socket) or "failed CODE":
#   hello                    answers "ok"
#   listen PORT              a listening socket on the loopback address
#   connect ADDRESS PORT     a connection to an address that is not this machine's
#   names SERVER HEX         a DNS query; answers "answer HEX". SERVER "-" means the host's name servers
use strict;
use warnings;
use Errno;
use POSIX qw(:sys_wait_h);
use Socket qw(:DEFAULT inet_pton IPPROTO_TCP TCP_NODELAY);

use constant {
    CHILDREN_MAX => 512, CONNECT_SECONDS => 15, NAME_SECONDS => 3, QUERY_BYTES_MAX => 1_200, SIOCGIFCONF => 0x8912,
    INTERFACES_MAX => 4_096,
};
$SIG{PIPE} = 'IGNORE';
my $path = shift;
my $children = 0;
unlink $path;
socket(my $listener, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
my $mask = umask 0177;
bind($listener, pack_sockaddr_un($path)) or die "bind $path: $!\n";
umask $mask;
listen($listener, 511) or die "listen: $!\n";

sub code { my @names = grep { $!{$_} } qw(EADDRINUSE EADDRNOTAVAIL EACCES ECONNREFUSED EHOSTUNREACH ENETUNREACH ETIMEDOUT); $names[0] // 'EIO' }

# The current addresses of this machine's interfaces, packed.
sub own_addresses {
    my %own;
    socket(my $any, PF_INET, SOCK_DGRAM, 0) or die "EIO\n";
    my $buffer = "\0" x (40 * INTERFACES_MAX);
    my $list = pack 'i x4 P', length $buffer, $buffer;
    defined ioctl($any, SIOCGIFCONF, $list) or die "EIO\n";
    my $length = unpack 'i', $list;
    for (my $at = 0; $at < $length; $at += 40) { $own{ substr $buffer, $at + 20, 4 } = 1 }
    if (open my $six, '<', '/proc/net/if_inet6') {
        while (<$six>) { $own{ pack 'H32', $1 } = 1 if /^([0-9a-f]{32})/ }
    }
    return \%own;
}

# The supervisor has checked the kind of address. Whether it is this machine's only the host's network namespace can
# tell.
sub is_this_machine {
    my ($packed) = @_;
    if (length $packed == 4) { return 1 if ord($packed) == 127 || ord($packed) == 0 }
    # Outside 2000::/3 are the unspecified, loopback, link-local and IPv4-mapped addresses.
    elsif ((ord($packed) & 0xe0) != 0x20) { return 1 }
    return own_addresses()->{$packed};
}

sub listen_on {
    my ($port) = @_;
    socket(my $socket, PF_INET, SOCK_STREAM, 0) or die code() . "\n";
    setsockopt($socket, SOL_SOCKET, SO_REUSEADDR, 1);
    bind($socket, pack_sockaddr_in($port, INADDR_LOOPBACK)) or die code() . "\n";
    # If another program is bound to the port with SO_REUSEADDR, only listen reports it.
    listen($socket, 511) or die code() . "\n";
    return $socket;
}

sub connect_to {
    my ($address, $port) = @_;
    my $packed = inet_pton(AF_INET, $address) // inet_pton(AF_INET6, $address) // die "EINVAL\n";
    die "EACCES\n" if is_this_machine($packed);
    my $is_four = length $packed == 4;
    socket(my $socket, $is_four ? PF_INET : PF_INET6, SOCK_STREAM, 0) or die code() . "\n";
    setsockopt($socket, IPPROTO_TCP, TCP_NODELAY, 1);
    local $SIG{ALRM} = sub { die "ETIMEDOUT\n" };
    alarm CONNECT_SECONDS;
    connect($socket, $is_four ? pack_sockaddr_in($port, $packed) : pack_sockaddr_in6($port, $packed)) or die code() . "\n";
    alarm 0;
    return $socket;
}

sub name_servers {
    open my $file, '<', '/etc/resolv.conf' or return;
    return map { /^\s*nameserver\s+(\S+)/ ? $1 : () } <$file>;
}

sub ask_server {
    my ($server, $query) = @_;
    my $packed = inet_pton(AF_INET, $server) // inet_pton(AF_INET6, $server) // die "EINVAL\n";
    my $is_four = length $packed == 4;
    my $peer = $is_four ? pack_sockaddr_in(53, $packed) : pack_sockaddr_in6(53, $packed);
    my $family = $is_four ? PF_INET : PF_INET6;
    local $SIG{ALRM} = sub { die "ETIMEDOUT\n" };
    alarm NAME_SECONDS;
    my ($datagrams, $stream);
    socket($datagrams, $family, SOCK_DGRAM, 0) && connect($datagrams, $peer) or die code() . "\n";
    my $answer = '';
    send($datagrams, $query, 0) // die code() . "\n";
    do { recv($datagrams, $answer, 65_535, 0) // die code() . "\n" } until substr($answer, 0, 2) eq substr($query, 0, 2);
    # The TC bit: the answer was truncated, and TCP returns all of it.
    if (length $answer > 2 && ord(substr $answer, 2, 1) & 2) {
        socket($stream, $family, SOCK_STREAM, 0) && connect($stream, $peer) or die code() . "\n";
        syswrite $stream, pack 'n/a*', $query;
        my $length = unpack 'n', read_all($stream, 2);
        $answer = read_all($stream, $length);
    }
    alarm 0;
    return $answer;
}

sub read_all {
    my ($from, $count) = @_;
    my $bytes = '';
    while (length $bytes < $count) { sysread($from, $bytes, $count - length $bytes, length $bytes) or die "EIO\n" }
    return $bytes;
}

sub ask_names {
    my ($server, $hex) = @_;
    die "EINVAL\n" if $hex !~ /^(?:[0-9a-f]{2}){12,}$/ || length $hex > 2 * QUERY_BYTES_MAX;
    my $problem = "ENOENT\n";
    for my $one ($server eq '-' ? name_servers() : $server) {
        my $answer = eval { ask_server($one, pack 'H*', $hex) };
        return 'answer ' . unpack('H*', $answer) . "\n" if defined $answer;
        $problem = $@;
    }
    die $problem;
}

sub serve {
    my ($client) = @_;
    my $line = '';
    until ($line =~ /\n\z/) { sysread($client, $line, 4096, length $line) && length $line < 8_192 or return }
    my ($verb, @words) = split ' ', $line;
    my ($text, $socket) = ("ok\n");
    my $is_done = eval {
          $verb eq 'hello'   ? 1
        : $verb eq 'listen'  ? $socket = listen_on(@words)
        : $verb eq 'connect' ? $socket = connect_to(@words)
        : $verb eq 'names'   ? $text = ask_names(@words)
        :                      die "EINVAL\n";
    };
    if (!$is_done) { $text = $@ =~ /^([A-Z0-9]+)$/m ? "failed $1\n" : "failed EIO\n" }
    if (defined $socket) { send_with($client, $text, $socket) }
    else { while ($text ne '') { my $written = syswrite($client, $text) or last; substr $text, 0, $written, '' } }
}

while (1) {
    while ($children > 0 && waitpid(-1, $children < CHILDREN_MAX ? WNOHANG : 0) > 0) { $children-- }
    accept(my $client, $listener) or next;
    my $pid = fork();
    if (!defined $pid) { close $client; next }
    if ($pid == 0) { close $listener; serve($client); POSIX::_exit(0) }
    $children++;
}
