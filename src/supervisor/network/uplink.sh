#!/bin/sh
# The way out of the hub: slirp4netns, in the network that this script is started in, with the rights of the user
# namespace of process $1 and for that process's network. $2 is where it is asked for host ports. It ends with the pid
# namespace of $1, if that is another than this script's, and when it is killed.
set -eu
hub=$1
socket=$2

# The folders above the socket may be closed to the user that slirp4netns runs as; and a name is never too long.
cd "$(dirname "$socket")"
socket=$(basename "$socket")
rm -f "$socket"

enter="-U"
[ "$(readlink /proc/self/ns/pid)" = "$(readlink "/proc/$hub/ns/pid")" ] || enter="-U -p"
# An ordinary user may not drop groups, and is root inside already.
[ "$(id -u)" = 0 ] || enter="$enter --preserve-credentials"

set -- nsenter -t "$hub" $enter -- slirp4netns --configure --mtu=65520 --disable-host-loopback --enable-sandbox \
  --enable-seccomp --api-socket "$socket" "$hub" tap0

# Inside, nobody is the host's root any more, who on some machines alone may open the device. A node of our own that
# others do not see leaves the machine's one as it is.
if [ "$(id -u)" = 0 ]; then
  exec unshare -m --propagation private sh -c '
    mount -t tmpfs -o mode=755,size=64k,noexec,nosuid castellan /dev/net
    mknod -m 666 /dev/net/tun c 10 200
    exec "$@"' uplink "$@"
fi
exec "$@"
