#!/bin/sh
# The host-network helper, in the network that this script is started in, with the rights of the user namespace of
# process $1, which are none here. $2 is where it is asked. It ends with the pid namespace of $1, and when it is killed.
set -eu
hub=$1
socket=$2
here=$(cd "$(dirname "$0")" && pwd)
enter="-U"
[ "$(readlink /proc/self/ns/pid)" = "$(readlink "/proc/$hub/ns/pid")" ] || enter="-U -p"
# An ordinary user may not drop groups, and is root inside already.
[ "$(id -u)" = 0 ] || enter="$enter --preserve-credentials"
# The folders above the socket and the program may be closed to the user that this becomes.
cd "$(dirname "$socket")"
exec 3<<END
$(cat "$here/descriptors.pl" "$here/host-network.pl")
END
exec nsenter -t "$hub" $enter -- perl - "$(basename "$socket")" <&3 3<&-
