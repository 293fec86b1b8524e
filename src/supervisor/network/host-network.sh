#!/bin/sh
# Starts the host-network helper in the current network namespace and in the user namespace of process $1, in which it
# has no capabilities over this network. $2 is the path of its socket. It ends with the pid namespace of $1, or when it
# is killed.
set -eu
hub=$1
socket=$2
here=$(cd "$(dirname "$0")" && pwd)
enter="-U"
[ "$(readlink /proc/self/ns/pid)" = "$(readlink "/proc/$hub/ns/pid")" ] || enter="-U -p"
# An ordinary user may not call setgroups, and is already root in the namespace.
[ "$(id -u)" = 0 ] || enter="$enter --preserve-credentials"
# The user that nsenter switches to may lack access to the folders above the socket and the program.
cd "$(dirname "$socket")"
exec 3<<END
$(cat "$here/descriptors.pl" "$here/host-network.pl")
END
exec nsenter -t "$hub" $enter -- perl - "$(basename "$socket")" <&3 3<&-
