#!/bin/sh
# Starts the supervisor in namespaces of its own: a user namespace in which it is root, and pid, mount, net, ipc
# namespaces that belong to it. Its death ends every process and mount in them. As root the ids inside are mapped to
# $UID_BASE and up, so that nothing in there is root outside; as an ordinary user, to that user and its subordinate ids.
#
# STATE: the folder of the workspaces' state. PROGRAM: the program's folder. NODE: the Node binary, inside PROGRAM or not.
# UID_MAP, GID_MAP, ID_COUNT: the ids of an ordinary user, as newuidmap takes them; images are built with the same.
set -eu
umask 077
exec 9>>"$STATE/supervisor.lock"
flock -n 9 || exit 75

IS_ROOT=
[ "$(id -u)" != 0 ] || IS_ROOT=yes

# An ordinary user is root in there already, and may have no way to change groups.
as_root_there=--preserve-credentials
[ ! $IS_ROOT ] || as_root_there=

rm -f "$STATE/slirp.sock" "$STATE/slirp.ended"
unshare -U sleep 30 9>&- &
keeper=$!
trap 'kill $keeper 2>/dev/null || :' EXIT
own=$(readlink /proc/self/ns/user)
until theirs=$(readlink /proc/$keeper/ns/user) && [ -n "$theirs" ] && [ "$theirs" != "$own" ]; do
  kill -0 $keeper 2>/dev/null || { echo 'launch: the kernel refuses user namespaces' >&2; exit 76; }
done

if [ $IS_ROOT ]; then
  chown "$UID_BASE:$UID_BASE" "$STATE"
  echo "0 $UID_BASE 65536" >/proc/$keeper/uid_map
  echo "0 $UID_BASE 65536" >/proc/$keeper/gid_map
  ids=65536
else
  if [ "$ID_COUNT" != 1 ] && newuidmap $keeper $UID_MAP 2>/dev/null && newgidmap $keeper $GID_MAP 2>/dev/null; then
    ids=$ID_COUNT
  else
    echo deny >/proc/$keeper/setgroups
    echo "0 $(id -u) 1" >/proc/$keeper/uid_map
    echo "0 $(id -g) 1" >/proc/$keeper/gid_map
    ids=1
  fi
fi

# Control groups that the supervisor may divide among its workspaces; only root can hand them over.
cgroups=
if [ $IS_ROOT ]; then
  for controller in memory cpu pids freezer unified; do
    case $controller in
      unified) base=/sys/fs/cgroup; [ -e $base/cgroup.controllers ] || continue; line='^0::' ;;
      *) base=/sys/fs/cgroup/$controller; [ -e $base/cgroup.procs ] || continue; line="^[0-9]*:\([^:]*,\)\?$controller\(,[^:]*\)\?:" ;;
    esac
    own=$(grep "$line" /proc/self/cgroup | head -n 1 | cut -d: -f3-)
    for left in "$base${own%/}"/castellan-*; do
      [ -e "/proc/${left##*-}" ] || find "$left" -depth -type d -exec rmdir {} \; 2>/dev/null || :
    done
    folder=$base${own%/}/castellan-$$
    mkdir "$folder" 2>/dev/null || continue
    if [ $controller = unified ]; then
      mkdir "$folder/supervisor"
      echo 0 >"$folder/supervisor/cgroup.procs"
      for one in memory cpu pids; do echo +$one >"$folder/cgroup.subtree_control" 2>/dev/null || :; done
      chown -R "$UID_BASE:$UID_BASE" "$folder"
    else
      chown "$UID_BASE:$UID_BASE" "$folder" "$folder/cgroup.procs"
    fi
    cgroups="$cgroups $controller=$folder"
  done
fi

prepare='
  set -eu
  mount --make-rprivate /
  mount -t tmpfs -o mode=755,size=1m castellan /mnt
  mkdir -m 755 /mnt/state /mnt/program /mnt/node
  mount --bind "$STATE" /mnt/state
  mount --bind "$PROGRAM" /mnt/program
  : >/mnt/node/node
  mount --bind "$NODE" /mnt/node/node
  store=plain
  mkdir -p /mnt/state/store
  if [ $IS_ROOT ] && [ "$STORE_GB" != 0 ] && command -v mkfs.btrfs >/dev/null; then
    if [ ! -e /mnt/state/store.btrfs ]; then
      truncate -s "${STORE_GB}G" /mnt/state/store.btrfs.new
      mkfs.btrfs -q /mnt/state/store.btrfs.new >/dev/null 2>&1 && mv /mnt/state/store.btrfs.new /mnt/state/store.btrfs
    fi
    if mount -o loop,noatime,user_subvol_rm_allowed /mnt/state/store.btrfs /mnt/state/store 2>/dev/null; then
      store=btrfs
      btrfs quota enable /mnt/state/store 2>/dev/null || :
      # Quotas of subvolumes that are gone.
      btrfs qgroup clear-stale /mnt/state/store >/dev/null 2>&1 || :
    fi
  fi
  [ ! $IS_ROOT ] || chown "$UID_BASE:$UID_BASE" /mnt/state/store
  export STORE_KIND=$store
  exec "$@"'
inside='
  set -eu
  mount -t proc proc /proc
  cd /mnt/state
  /mnt/node/node --disable-warning=ExperimentalWarning /mnt/program/src/supervisor/main.ts &
  wait $!'

export STATE PROGRAM NODE UID_BASE STORE_GB IS_ROOT
export CASTELLAN_SUPERVISOR_IDS=$ids CASTELLAN_SUPERVISOR_CGROUPS="${cgroups# }"
if [ $IS_ROOT ]; then
  unshare -m sh -c "$prepare" prepare nsenter $as_root_there -U -t $keeper unshare -m -p -n -i --fork --kill-child sh -c "$inside" &
else
  nsenter $as_root_there -U -t $keeper unshare -m sh -c "$prepare" prepare unshare -p -n -i --fork --kill-child sh -c "$inside" &
fi
outer=$!
own_pids=$(readlink /proc/self/ns/pid)
first=
while [ -z "$first" ]; do
  kill -0 $outer 2>/dev/null || { wait $outer || code=$?; exit "${code:-1}"; }
  for one in $(cat /proc/$outer/task/$outer/children 2>/dev/null || :); do
    theirs=$(readlink /proc/$one/ns/pid) || continue
    [ "$theirs" = "$own_pids" ] || first=$one
  done
done
echo "$first" >"$STATE/supervisor.pid.new" && mv "$STATE/supervisor.pid.new" "$STATE/supervisor.pid"
exec 9>&-
# The way out is started again when it was killed, less and less often if it never lasts. What it could not do at its
# start it could not do the next time: then it is left alone. slirp.ended is there while it does not run.
keep_uplink() {
  pause=1
  while [ -e "/proc/$first/ns/net" ]; do
    rm -f "$STATE/slirp.ended"
    (umask 022 && : >"$STATE/slirp.log")
    began=$(date +%s)
    code=0
    sh "$PROGRAM/src/supervisor/network/uplink.sh" "$first" "$STATE/slirp.sock" >>"$STATE/slirp.log" 2>&1 || code=$?
    [ -e "/proc/$first/ns/net" ] || return 0
    : >"$STATE/slirp.ended"
    [ $code -gt 128 ] || return 0
    pause=$((pause * 2))
    [ $(($(date +%s) - began)) -lt 60 ] || pause=1
    [ $pause -lt 300 ] || pause=300
    sleep $pause
  done
}
keep_uplink &
kill $keeper 2>/dev/null || :
trap - EXIT
code=0
wait $outer || code=$?
for entry in $cgroups; do
  folder=${entry#*=}
  find "$folder" -depth -type d -exec rmdir {} \; 2>/dev/null || :
done
exit $code
