#!/bin/sh
# Starts the supervisor in its own user, pid, mount, net and ipc namespaces. Its exit ends every process and mount in
# them. If started by root, the ids inside map to $UID_BASE and up, so no process inside is root outside; if started by
# an ordinary user, they map to that user and its subordinate ids.
#
# STATE: the state directory of the workspaces. PROGRAM: the folder of the program. NODE: the Node binary.
# Files of root are in STATE itself, which the supervisor can only read; it writes only to the folders in STATE that it
# owns. So a compromised supervisor cannot redirect root with a symbolic link, or forge a file that is taken for root's.
# RG: the search program, or empty.
# COMPILED: where the compiled code of the supervisor is kept between starts, or empty.
# STORE_GB, RESERVE_MB, TENANT_SHARE: limits of the store; see store-keeper.pl.
# ENTER_SECONDS: how long entering a workspace may take.
# FOLDERS: host folders that workspaces may see, one on each line.
# UID_MAP, GID_MAP, ID_COUNT: the id maps of an ordinary user, in newuidmap's format. Images are built with the same.
set -eu
umask 077

# Workspaces must not inherit descriptors that the server had open. 436 is close_range.
if [ -z "${CLOSED-}" ]; then
  CLOSED=yes exec perl -e 'syscall 436, 3, 0xffffffff, 0; exec @ARGV' /bin/sh "$0"
fi
unset CLOSED

IS_ROOT=
[ "$(id -u)" != 0 ] || IS_ROOT=yes
# The number of ranges of 65536 ids for running workspaces. They follow the range that owns stored files; one more id
# follows them.
RANGES=0

if [ $IS_ROOT ]; then
  chown "0:$UID_BASE" "$STATE"
  chmod 750 "$STATE"
  # Earlier versions gave the whole folder to the supervisor. A link owned by root was made by the operator.
  find "$STATE" -maxdepth 1 -type l ! -user 0 -delete
fi

# Held until everything that this start has made is removed, so that the next start finds none of it.
exec 9>>"$STATE/supervisor.lock"
flock -n 9 || exit 75
cgroups=
freezer=
keeper=
watcher=
ranges=
helpers=
# A zombie holds nothing, even if its parent, such as the init process of a container, never reaps it.
is_running() {
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
  case ${stat##*) } in [ZX]*) return 1 ;; esac
}
clean_up() {
  # These write to STATE and would restart their child, so they end first.
  [ ! "$helpers" ] || { kill $helpers 2>/dev/null || :; wait $helpers 2>/dev/null || :; }
  # ranges.pl runs outside the supervisor's namespaces, so their end does not kill it, and it keeps the store mounted.
  if [ "$ranges" ]; then
    kill $ranges 2>/dev/null || :
    while is_running $ranges; do sleep 0.01; done
  fi
  [ ! "$keeper" ] || kill $keeper 2>/dev/null || :
  [ ! "$watcher" ] || kill $watcher 2>/dev/null || :
  # If the state directory was removed and created again, files of these names belong to another supervisor.
  is_ours=
  [ ! "$STATE/supervisor.lock" -ef /proc/$$/fd/9 ] || is_ours=yes
  # Opens and closes both ends, so that a reader of the pipe sees its end even if the supervisor never opened it.
  [ ! $is_ours ] || [ ! -p "$STATE/alive" ] || : <>"$STATE/alive"
  for entry in $cgroups; do find "${entry#*=}" -depth -type d -exec rmdir {} \; 2>/dev/null || :; done
  [ $is_ours ] || return 0
  # The pid file goes last: its absence means that nothing is left.
  rm -f "$STATE/ranges.sock" "$STATE/sockets/slirp.sock" "$STATE/sockets/host.sock" "$STATE/slirp.ended" "$STATE/alive" \
    "$STATE/sockets/supervisor.sock" "$STATE/supervisor.sock" "$STATE/supervisor.pid"
}
clean_up
trap clean_up EXIT

(
  cd "$STATE"
  set -- sockets run store images logs jobs addresses image-uses shares writes authority
  mkdir -p "$@"
  [ ! $IS_ROOT ] || chown "$UID_BASE:$UID_BASE" "$@"
)
# Where the server connects.
ln -s sockets/supervisor.sock "$STATE/supervisor.sock"

# An ordinary user is already root in the namespace, and may not be able to change groups.
as_root_there=--preserve-credentials
[ ! $IS_ROOT ] || as_root_there=

maker=
if [ $IS_ROOT ]; then
  maker=$UID_BASE
  # Limits are set per workspace. A common limit would let one workspace use up what the others need.
  prlimit --pid $$ --nproc=unlimited --sigpending=unlimited --msgqueue=unlimited --memlock=unlimited 2>/dev/null || :
fi
perl "$PROGRAM/src/supervisor/keeper.pl" $maker 9>&- &
keeper=$!
until [ ! /proc/$keeper/ns/user -ef /proc/$$/ns/user ] && [ -e /proc/$keeper/ns/user ]; do
  kill -0 $keeper 2>/dev/null || { echo 'launch: the kernel refuses user namespaces' >&2; exit 76; }
done

if [ $IS_ROOT ]; then
  ids=65536
  # A machine that is itself a container may have fewer ids.
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

# Delegates control groups to the supervisor, which only root can do. cpuset and cpuacct limit nothing, but Java honours
# the other limits only if it finds them.
if [ $IS_ROOT ]; then
  for controller in memory cpu cpuset cpuacct pids freezer unified; do
    [ $controller != cpuacct ] || [ ! /sys/fs/cgroup/cpuacct -ef /sys/fs/cgroup/cpu ] || continue
    case $controller in
      unified) base=/sys/fs/cgroup; [ -e $base/cgroup.controllers ] || continue; name= ;;
      *) base=/sys/fs/cgroup/$controller; [ -e $base/cgroup.procs ] || continue; name=$controller ;;
    esac
    while IFS=: read -r _ names own; do
      case ,$names, in *,"$name",*) break ;; esac
      own=
    done </proc/self/cgroup
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
      # A process can join a cpuset only if it has CPUs and memory nodes; clone_children then copies them to child
      # groups.
      if [ $controller = cpuset ]; then
        for one in cpus mems; do cat "${folder%/*}/cpuset.$one" >"$folder/cpuset.$one" || :; done
        if [ -n "$(cat "$folder/cpuset.cpus")" ] && [ -n "$(cat "$folder/cpuset.mems")" ]; then
          echo 1 >"$folder/cgroup.clone_children"
        else
          rmdir "$folder"
          continue
        fi
      fi 2>/dev/null
      chown "$UID_BASE:$UID_BASE" "$folder" "$folder/cgroup.procs"
    fi
    cgroups="$cgroups $controller=$folder"
    [ $controller != freezer ] || freezer=$folder
  done
fi

# With cgroup v1 a frozen process cannot die, and a process that waits for its end would wait for ever. So processes
# that the supervisor left frozen are thawed after its end. The pipe reaches its end only when no process is left that
# could thaw them itself.
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
    # A copy, because /proc/self/mountinfo in a workspace shows the source path of a mount.
    cp "$RG" /mnt/node/rg
    chmod 755 /mnt/node/rg
  fi
  # Compiled before the supervisor runs, because code that the supervisor can change must not be run by another one. It only
  # makes starts faster, so without it the start goes on.
  if [ "$COMPILED" ]; then
    if [ ! -e "$COMPILED/done" ] || [ "$(find "$PROGRAM/src" -name "*.ts" -newer "$COMPILED/done" -print -quit)" ]; then
      new=$COMPILED.$$
      if mkdir -p "$new" && : >"$new/done" &&
        NODE_COMPILE_CACHE=$new /mnt/node/node --disable-warning=ExperimentalWarning /mnt/program/src/supervisor/main.ts --compile &&
        chmod -R a+rX "$new" && rm -rf "$COMPILED" && mv -T "$new" "$COMPILED"; then :; else rm -rf "$new"; fi
    fi 2>/dev/null
    # A copy, because another start may replace it, and Node tries for ever to use a folder that was removed under a mount.
    mkdir -m 755 /mnt/compiled
    { [ -O "$COMPILED/done" ] && cp -r "$COMPILED/." /mnt/compiled && chmod -R a+rX /mnt/compiled; } 2>/dev/null || rm -rf /mnt/compiled
  fi
  mkdir -m 755 /mnt/folders
  [ ! "$FOLDERS" ] || perl "$PROGRAM/src/supervisor/folders.pl" /mnt/folders "${IS_ROOT:+$UID_BASE}"
  # An existing store decides its kind: choosing another kind would hide every workspace.
  store=plain
  is_new=
  if [ ! -e /mnt/state/store.btrfs ] && [ $IS_ROOT ] && [ "$STORE_GB" != 0 ] && command -v mkfs.btrfs >/dev/null &&
    [ -z "$(find /mnt/state/store -mindepth 2 | head -n 1)" ]; then
    rm -f /mnt/state/store.btrfs.new
    # The file system starts no larger than the disk allows; store-keeper.pl grows it when there is space.
    space_mb=$(($(stat -f -c "%a * %S" /mnt/state) / 1048576 - RESERVE_MB))
    [ $space_mb -lt $((STORE_GB * 1024)) ] || space_mb=$((STORE_GB * 1024))
    [ $space_mb -ge $STORE_MB_MIN ] || {
      echo "launch: the disk of the data directory has no space for workspaces: beside the $RESERVE_MB MiB of workspaces.host_reserve_mb, $STORE_MB_MIN MiB must be free. Free some space." >&2
      exit 77
    }
    truncate -s "${STORE_GB}G" /mnt/state/store.btrfs.new
    if mkfs.btrfs -q -b "${space_mb}M" /mnt/state/store.btrfs.new >/dev/null 2>&1; then
      mv /mnt/state/store.btrfs.new /mnt/state/store.btrfs
      is_new=yes
    else
      rm -f /mnt/state/store.btrfs.new
    fi
  fi
  if [ -e /mnt/state/store.btrfs ]; then
    # The mount of a supervisor that has just ended may still be going away.
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
      # Removes the quota groups of deleted subvolumes.
      btrfs qgroup clear-stale /mnt/state/store >/dev/null 2>&1 || :
      # It inherits the lock: while it lives, so does the mount.
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
  # Shared, so that roots mounted later propagate to init processes that already exist.
  mount --bind /mnt/roots /mnt/roots
  mount --make-shared /mnt/roots
  cd /mnt/state
  [ ! "$FREEZER" ] || exec 8<>alive
  [ ! -e /mnt/compiled ] || export NODE_COMPILE_CACHE=/mnt/compiled
  /mnt/node/node --disable-warning=ExperimentalWarning /mnt/program/src/supervisor/main.ts &
  wait $!'

# A smaller btrfs store would be of no use.
STORE_MB_MIN=256
export STATE PROGRAM NODE RG COMPILED UID_BASE STORE_GB STORE_MB_MIN RESERVE_MB TENANT_SHARE ENTER_SECONDS FOLDERS IS_ROOT RANGES FREEZER="$freezer"
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
  children=
  read -r children 2>/dev/null </proc/$outer/task/$outer/children || :
  for one in $children; do
    # A process that still has a namespace after the comparison existed during the comparison.
    if [ /proc/$one/ns/pid -ef /proc/$$/ns/pid ]; then ranges=$one; elif [ -e /proc/$one/ns/pid ]; then first=$one; fi
  done
  [ "$first" ] || sleep 0.01
done
echo "$first" >"$STATE/supervisor.pid.new" && mv "$STATE/supervisor.pid.new" "$STATE/supervisor.pid"
# Restarts slirp4netns with back-off when it was killed. An error exit would repeat itself, so it is then left alone.
# slirp.ended exists while slirp4netns does not run.
keep_uplink() {
  # Closed here and not in a redirection of the whole function, for which the shell would keep a copy open.
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
helpers=$!
# Restarts the host-network helper, through which named hosts and forwarded ports are reached. It needs only Perl.
keep_host_network() {
  exec 9>&-
  while [ -e "/proc/$first/ns/net" ]; do
    (umask 022 && : >"$STATE/host-network.log")
    sh "$PROGRAM/src/supervisor/network/host-network.sh" "$first" "$STATE/sockets/host.sock" >>"$STATE/host-network.log" 2>&1 || :
    sleep 1
  done
}
keep_host_network &
helpers="$helpers $!"
# The supervisor itself notices that its state directory is gone. That another took its place is visible only to root,
# if the parent folders are root's own.
if [ $IS_ROOT ]; then
  # Once this shell has ended, the pid may belong to another process.
  perl -e 'my ($path, $first) = @ARGV; my $shell = getppid; my @own = stat $path or exit;
    while (sleep 2) { exit if getppid != $shell; my @now = stat $path; last if @now && "@now[0, 1]" ne "@own[0, 1]" }
    kill 9, $first' \
    "$STATE" "$first" 9>&- &
  watcher=$!
fi
kill $keeper 2>/dev/null || :
keeper=

code=0
wait $outer || code=$?
exit $code
