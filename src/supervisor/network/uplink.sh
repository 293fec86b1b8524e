#!/bin/sh
# Starts slirp4netns, the hub's uplink, in the current network namespace and in the user namespace of process $1. It
# serves the network namespace of $1. $2 is the path of its API socket. It ends when it is killed, and with the pid
# namespace of $1 if that differs from this script's.
set -eu
hub=$1
socket=$2

# The user that slirp4netns runs as may lack access to the folders above the socket. A relative name also avoids the
# length limit of socket paths.
cd "$(dirname "$socket")"
socket=$(basename "$socket")
rm -f "$socket"

enter="-U"
[ "$(readlink /proc/self/ns/pid)" = "$(readlink "/proc/$hub/ns/pid")" ] || enter="-U -p"
# An ordinary user may not call setgroups, and is already root in the namespace.
[ "$(id -u)" = 0 ] || enter="$enter --preserve-credentials"

set -- nsenter -t "$hub" $enter -- slirp4netns --configure --mtu=65520 --disable-host-loopback --enable-sandbox \
  --enable-seccomp --api-socket "$socket" "$hub" tap0

# On some machines only the host's root may open /dev/net/tun, and slirp4netns runs as another user. A device node in a
# private mount namespace leaves the machine's node as it is.
if [ "$(id -u)" = 0 ]; then
  exec unshare -m --propagation private sh -c '
    mount -t tmpfs -o mode=755,size=64k,noexec,nosuid castellan /dev/net
    mknod -m 666 /dev/net/tun c 10 200
    exec "$@"' uplink "$@"
fi
exec "$@"
