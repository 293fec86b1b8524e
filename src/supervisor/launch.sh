#!/bin/sh
# Starts the supervisor in namespaces of its own: a user namespace in which it is root, and pid, mount, net, ipc
# namespaces that belong to it. Its death ends every process and mount in them. As root the ids inside are mapped to
# $UID_BASE and up, so that nothing in there is root outside; as an ordinary user, to that user and its subordinate ids.
#
# STATE: the folder of the workspaces' state. PROGRAM: the program's folder. NODE: the Node binary, inside PROGRAM or not.
# Root's own files are in STATE itself, which the supervisor can only read; what it writes is in the folders in STATE that
# it is given. So nobody who takes it over can lead root elsewhere by a link, or forge what others believe of root.
# RG: the program that searches in files, or nothing.
# STORE_GB, RESERVE_MB, TENANT_SHARE: bounds of the store; see store-keeper.pl.
# FOLDERS: folders of the host that workspaces may see, one in each line.
# UID_MAP, GID_MAP, ID_COUNT: the ids of an ordinary user, as newuidmap takes them; images are built with the same.
set -eu
umask 077

# What the server happened to be started with open is not for workspaces. 436 is close_range.
if [ -z "${CLOSED-}" ]; then
  CLOSED=yes exec perl -e 'syscall 436, 3, 0xffffffff, 0; exec @ARGV' /bin/sh "$0"
fi
unset CLOSED

IS_ROOT=
[ "$(id -u)" != 0 ] || IS_ROOT=yes
# Ranges of 65536 ids for running workspaces, behind the one that everything stored belongs to; then one more id.
RANGES=0

if [ $IS_ROOT ]; then
  chown "0:$UID_BASE" "$STATE"
  chmod 750 "$STATE"
  # Earlier versions gave the whole folder to the supervisor. A link that is root's own is the operator's wish.
  find "$STATE" -maxdepth 1 -type l ! -user 0 -delete
fi

# Held until everything that this start made is gone again, so that the next one finds nothing of it.
exec 9>>"$STATE/supervisor.lock"
flock -n 9 || exit 75
cgroups=
freezer=
keeper=
watcher=
ranges=
ways=
# What has ended holds nothing any more, even if its parent, which may be a container's first process, never asks for its end.
is_running() {
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
  case ${stat##*) } in [ZX]*) return 1 ;; esac
}
clear_away() {
  # They write in STATE, and would start again what has just ended.
  [ ! "$ways" ] || { kill $ways 2>/dev/null || :; wait $ways 2>/dev/null || :; }
  # Root's own helper, which the end of the supervisor's namespaces does not reach, and which keeps the store mounted.
  if [ "$ranges" ]; then
    kill $ranges 2>/dev/null || :
    while is_running $ranges; do sleep 0.01; done
  fi
  [ ! "$keeper" ] || kill $keeper 2>/dev/null || :
  [ ! "$watcher" ] || kill $watcher 2>/dev/null || :
  # In a folder that was removed and made again, what has the same names is another's.
  is_ours=
  [ ! "$STATE/supervisor.lock" -ef /proc/$$/fd/9 ] || is_ours=yes
  # Gives an end to a pipe that the supervisor may never have opened.
  [ ! $is_ours ] || [ ! -p "$STATE/alive" ] || : <>"$STATE/alive"
  for entry in $cgroups; do find "${entry#*=}" -depth -type d -exec rmdir {} \; 2>/dev/null || :; done
  [ $is_ours ] || return 0
  # The number goes last: without it nothing is left.
  rm -f "$STATE/ranges.sock" "$STATE/sockets/slirp.sock" "$STATE/sockets/host.sock" "$STATE/slirp.ended" "$STATE/alive" \
    "$STATE/sockets/supervisor.sock" "$STATE/supervisor.sock" "$STATE/supervisor.pid"
}
clear_away
trap clear_away EXIT

(
  cd "$STATE"
  set -- sockets run store images logs jobs addresses image-uses shares writes authority
  mkdir -p "$@"
  [ ! $IS_ROOT ] || chown "$UID_BASE:$UID_BASE" "$@"
)
# Where the server looks for it.
ln -s sockets/supervisor.sock "$STATE/supervisor.sock"

# An ordinary user is root in there already, and may have no way to change groups.
as_root_there=--preserve-credentials
[ ! $IS_ROOT ] || as_root_there=

maker=
if [ $IS_ROOT ]; then
  maker=$UID_BASE
  # What each workspace may have is set for each; all together have no bound that one could use up for the others.
  prlimit --pid $$ --nproc=unlimited --sigpending=unlimited --msgqueue=unlimited --memlock=unlimited 2>/dev/null || :
fi
perl "$PROGRAM/src/supervisor/keeper.pl" $maker 9>&- &
keeper=$!
until [ ! /proc/$keeper/ns/user -ef /proc/$$/ns/user ] && [ -e /proc/$keeper/ns/user ]; do
  kill -0 $keeper 2>/dev/null || { echo 'launch: the kernel refuses user namespaces' >&2; exit 76; }
done

if [ $IS_ROOT ]; then
  ids=65536
  # A machine that is a container itself may have fewer ids.
  many="0 $UID_BASE $((65536 * 4097 + 1))"
  if echo "$many" >/proc/$keeper/uid_map && echo "$many" >/proc/$keeper/gid_map; then
    RANGES=4096
  else
    echo "0 $UID_BASE 65536" >/proc/$keeper/uid_map
    echo "0 $UID_BASE 65536" >/proc/$keeper/gid_map
  fi 2>/dev/null
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
if [ $IS_ROOT ]; then
  for controller in memory cpu pids freezer unified; do
    case $controller in
      unified) base=/sys/fs/cgroup; [ -e $base/cgroup.controllers ] || continue; line='^0::' ;;
      *) base=/sys/fs/cgroup/$controller; [ -e $base/cgroup.procs ] || continue; line="^[0-9]*:\([^:]*,\)\?$controller\(,[^:]*\)\?:" ;;
    esac
    own=$(grep "$line" /proc/self/cgroup | head -n 1 | cut -d: -f3-)
    folder=$base${own%/}/castellan-$$
    for left in "$base${own%/}"/castellan-*; do
      if [ "$left" = "$folder" ] || [ ! -e "/proc/${left##*-}" ]; then
        find "$left" -depth -type d -exec rmdir {} \; 2>/dev/null || :
      fi
    done
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
    [ $controller != freezer ] || freezer=$folder
  done
fi

# With version 1, what is frozen cannot die, and a process that waits for its end waits for ever: when the supervisor ends, what
# it left frozen is let go. The pipe has an end only once every process that might let it go itself is dead.
if [ "$freezer" ]; then
  mkfifo "$STATE/alive"
  chown "$UID_BASE:$UID_BASE" "$STATE/alive"
  {
    read -r _ <"$STATE/alive" || :
    for one in "$freezer"/*/freezer.state; do echo THAWED >"$one" || :; done
  } 2>/dev/null 9>&- &
fi

prepare='
  set -eu
  mount --make-rprivate /
  mount -t tmpfs -o mode=755,size=16m castellan /mnt
  mkdir -m 755 /mnt/state /mnt/program /mnt/node /mnt/stage
  mount --bind "$STATE" /mnt/state
  mount --bind "$PROGRAM" /mnt/program
  : >/mnt/node/node
  mount --bind "$NODE" /mnt/node/node
  if [ "$RG" ]; then
    # A copy: what is mounted in a workspace shows there where it comes from.
    cp "$RG" /mnt/node/rg
    chmod 755 /mnt/node/rg
  fi
  mkdir -m 755 /mnt/folders
  [ ! "$FOLDERS" ] || perl "$PROGRAM/src/supervisor/folders.pl" /mnt/folders "${IS_ROOT:+$UID_BASE}"
  # What is stored decides what the store is: another choice would hide every workspace there is.
  store=plain
  is_new=
  if [ ! -e /mnt/state/store.btrfs ] && [ $IS_ROOT ] && [ "$STORE_GB" != 0 ] && command -v mkfs.btrfs >/dev/null &&
    [ -z "$(find /mnt/state/store -mindepth 2 | head -n 1)" ]; then
    rm -f /mnt/state/store.btrfs.new
    # The file system begins no larger than the disk allows; store-keeper.pl makes it larger when there is room.
    room=$(($(stat -f -c "%a * %S" /mnt/state) / 1048576 - RESERVE_MB))
    [ $room -lt $((STORE_GB * 1024)) ] || room=$((STORE_GB * 1024))
    [ $room -ge $STORE_MB_MIN ] || {
      echo "launch: the disk of the data directory has no room for workspaces: beside the $RESERVE_MB MiB of workspaces.host_reserve_mb, $STORE_MB_MIN MiB must be free. Make room." >&2
      exit 77
    }
    truncate -s "${STORE_GB}G" /mnt/state/store.btrfs.new
    if mkfs.btrfs -q -b "${room}M" /mnt/state/store.btrfs.new >/dev/null 2>&1; then
      mv /mnt/state/store.btrfs.new /mnt/state/store.btrfs
      is_new=yes
    else
      rm -f /mnt/state/store.btrfs.new
    fi
  fi
  if [ -e /mnt/state/store.btrfs ]; then
    # The mount of a supervisor that has just ended may be on its way out.
    attempt=0
    [ $IS_ROOT ] || attempt=50
    until mount -o loop,noatime,user_subvol_rm_allowed /mnt/state/store.btrfs /mnt/state/store 2>/mnt/problem; do
      attempt=$((attempt + 1))
      [ ! $is_new ] || break
      [ $attempt -lt 50 ] || { echo "launch: the store of the workspaces, store.btrfs, cannot be mounted: $(cat /mnt/problem)" >&2; exit 77; }
      sleep 0.1
    done
    if mountpoint -q /mnt/state/store; then
      store=btrfs
      btrfs quota enable /mnt/state/store 2>/dev/null || :
      # Quotas of subvolumes that are gone.
      btrfs qgroup clear-stale /mnt/state/store >/dev/null 2>&1 || :
      # It keeps the lock as well: while it lives, so does the mount.
      perl "$PROGRAM/src/supervisor/store-keeper.pl" /mnt/state $((RESERVE_MB * 1048576)) \
        "$(stat -c %s /mnt/state/store.btrfs)" "$TENANT_SHARE" &
    else
      rm -f /mnt/state/store.btrfs
    fi
  fi
  [ ! $IS_ROOT ] || chown "$UID_BASE:$UID_BASE" /mnt/state/store
  export STORE_KIND=$store
  mkdir -m 755 /mnt/ids /mnt/roots /mnt/shown
  if [ $IS_ROOT ]; then chown "$UID_BASE:$UID_BASE" /mnt/ids /mnt/roots /mnt/shown; fi
  if [ $IS_ROOT ]; then
    perl "$PROGRAM/src/supervisor/ranges.pl" ranges.sock "$UID_BASE" "$RANGES" 9>&- &
    until [ -S /mnt/state/ranges.sock ]; do kill -0 $! 2>/dev/null || break; sleep 0.01; done
  fi
  exec "$@"'
inside='
  set -eu
  mount -t proc proc /proc
  # Where the roots of workspaces are mounted, for first processes that are there already.
  mount --bind /mnt/roots /mnt/roots
  mount --make-shared /mnt/roots
  cd /mnt/state
  [ ! "$FREEZER" ] || exec 8<>alive
  /mnt/node/node --disable-warning=ExperimentalWarning /mnt/program/src/supervisor/main.ts &
  wait $!'

# Smaller than this a store of btrfs is of no use.
STORE_MB_MIN=256
export STATE PROGRAM NODE RG UID_BASE STORE_GB STORE_MB_MIN RESERVE_MB TENANT_SHARE FOLDERS IS_ROOT RANGES FREEZER="$freezer"
export CASTELLAN_SUPERVISOR_IDS=$ids CASTELLAN_SUPERVISOR_CGROUPS="${cgroups# }"
if [ $IS_ROOT ]; then
  unshare -m sh -c "$prepare" prepare nsenter $as_root_there -U -t $keeper unshare -m -p -n -i --fork --kill-child sh -c "$inside" &
else
  nsenter $as_root_there -U -t $keeper unshare -m sh -c "$prepare" prepare unshare -p -n -i --fork --kill-child sh -c "$inside" &
fi
outer=$!
first=
while [ -z "$first" ]; do
  kill -0 $outer 2>/dev/null || { wait $outer || code=$?; exit "${code:-1}"; }
  ranges=
  for one in $(cat /proc/$outer/task/$outer/children 2>/dev/null || :); do
    # What still has a namespace after the comparison was there to be compared.
    if [ /proc/$one/ns/pid -ef /proc/$$/ns/pid ]; then ranges=$one; elif [ -e /proc/$one/ns/pid ]; then first=$one; fi
  done
  [ "$first" ] || sleep 0.01
done
echo "$first" >"$STATE/supervisor.pid.new" && mv "$STATE/supervisor.pid.new" "$STATE/supervisor.pid"
# The way out is started again when it was killed, less and less often if it never lasts. What it could not do at its
# start it could not do the next time: then it is left alone. slirp.ended is there while it does not run.
keep_uplink() {
  # As a redirection of the whole function the shell would keep it open, to have it again afterwards.
  exec 9>&-
  pause=1
  while [ -e "/proc/$first/ns/net" ]; do
    rm -f "$STATE/slirp.ended"
    (umask 022 && : >"$STATE/slirp.log")
    began=$(date +%s)
    code=0
    sh "$PROGRAM/src/supervisor/network/uplink.sh" "$first" "$STATE/sockets/slirp.sock" >>"$STATE/slirp.log" 2>&1 || code=$?
    [ -e "/proc/$first/ns/net" ] || return 0
    : >"$STATE/slirp.ended"
    [ $code -gt 128 ] || return 0
    pause=$((pause * 2))
    [ $(($(date +%s) - began)) -lt 60 ] || pause=1
    [ $pause -lt 300 ] || pause=300
    left=$pause
    while [ $left -gt 0 ] && [ -e "/proc/$first/ns/net" ]; do
      sleep 1
      left=$((left - 1))
    done
  done
}
keep_uplink &
ways=$!
# The host-network helper: named hosts and forwarded ports are reached through it. It needs nothing but Perl.
keep_host_network() {
  exec 9>&-
  while [ -e "/proc/$first/ns/net" ]; do
    (umask 022 && : >"$STATE/host-network.log")
    sh "$PROGRAM/src/supervisor/network/host-network.sh" "$first" "$STATE/sockets/host.sock" >>"$STATE/host-network.log" 2>&1 || :
    sleep 1
  done
}
keep_host_network &
ways="$ways $!"
# A folder that is gone the supervisor sees by itself. Another in its place only we may see: its parents can be root's own.
if [ $IS_ROOT ]; then
  # Without this shell nobody knows whose number that is by then.
  perl -e 'my ($path, $first) = @ARGV; my $shell = getppid; my @own = stat $path or exit;
    while (sleep 10) { exit if getppid != $shell; my @now = stat $path; last if @now && "@now[0, 1]" ne "@own[0, 1]" }
    kill 9, $first' \
    "$STATE" "$first" 9>&- &
  watcher=$!
fi
kill $keeper 2>/dev/null || :
keeper=

code=0
wait $outer || code=$?
exit $code
