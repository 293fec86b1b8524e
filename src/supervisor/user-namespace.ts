import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { AppError } from '../contract/app-error.ts'

/**
 * The first of the host ids that root maps. No account uses ids this high, so a process that escapes its namespace has no rights.
 */
export const UID_BASE = 1_500_000_000
export const ID_COUNT = 65_536

/** The search path for system programs, whatever PATH the caller has. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

type UserNamespaceOptions = Readonly<{
  /** If run by root: the host id of the namespace's id 0, for users and groups alike. */
  uidBase?: number
  idCount?: number
}>

export type UserNamespace = Readonly<{
  /** The process that keeps the namespace open. It ends with this process, even if this process is killed. */
  pid: number
  /** How many ids are mapped, from 0 without a gap; 1 if only root is. */
  idCount: number
  /** Why only one id is mapped, and what to do about it. */
  limitation: string | undefined
  /** The host ids of the namespace's root, which must own the directories that it works in. */
  owner: Readonly<{ uid: number; gid: number }>
  /** The arguments to put before a program, so that it runs as root of the namespace in its current directory. */
  enterArgv(): string[]
  close(): Promise<void>
}>

type IdRange = Readonly<{ inside: number; outside: number; count: number }>
type Mapping = Readonly<{
  uids: readonly IdRange[]
  gids: readonly IdRange[]
  by: 'file' | 'setuid programs'
  limitation?: string
}>

/**
 * Opens a user namespace that stays open until it is closed, with 65536 ids where that is allowed.
 *
 * Root maps host ids from `uidBase` on. For an ordinary user, the namespace's root is that user, and the other ids are those that
 * `/etc/subuid` and `/etc/subgid` grant; without a grant there are no other ids.
 */
export async function openUserNamespace(options: UserNamespaceOptions = {}): Promise<UserNamespace> {
  const mapping = await chooseMapping({ uidBase: options.uidBase ?? UID_BASE, idCount: options.idCount ?? ID_COUNT })
  const keeper = await startKeeper()
  const pid = keeper.pid!
  try {
    await applyMapping(pid, mapping)
  } catch (error) {
    await stopKeeper(keeper)
    throw error
  }
  return {
    pid,
    idCount: countOf(mapping.uids),
    limitation: mapping.limitation,
    owner: { uid: mapping.uids[0]!.outside, gid: mapping.gids[0]!.outside },
    // If setgroups is denied, nsenter must not call it; the user is root of the namespace without it.
    enterArgv: () => [
      'nsenter',
      '--user',
      `--target=${pid}`,
      ...(mapping.limitation === undefined ? [] : ['--preserve-credentials']),
      '--',
    ],
    close: () => stopKeeper(keeper),
  }
}

/**
 * The id maps of such a namespace in the format of newuidmap, for namespaces that are created by other means. Equal maps make
 * files have equal owners.
 */
export async function chooseIdMaps(): Promise<Readonly<{ uids: string; gids: string; count: number }>> {
  const { uids, gids } = await chooseMapping({ uidBase: UID_BASE, idCount: ID_COUNT })
  return { uids: mapArguments(uids).join(' '), gids: mapArguments(gids).join(' '), count: countOf(uids) }
}

const execute = promisify(execFile)
const environment = { PATH: SYSTEM_PATH, LANG: 'C' }

/**
 * It echoes its input, so an answer means that the namespace exists, and it ends at end-of-file. It has a session of its own, so
 * that Ctrl-C does not reach it: the namespace is still needed to clean up.
 */
async function startKeeper(): Promise<ChildProcess> {
  const keeper = spawn('unshare', ['--user', '--', 'cat'], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: environment,
    detached: true,
  })
  keeper.stdin.on('error', () => {})
  keeper.stderr.resume()
  keeper.stdin.write('\n')
  const answered = once(keeper.stdout, 'data').then(() => true)
  answered.catch(() => {})
  const ended = once(keeper, 'close').then(
    () => false,
    () => false,
  )
  if (await Promise.race([answered, ended])) {
    keeper.unref()
    for (const stream of [keeper.stdin, keeper.stdout, keeper.stderr]) (stream as unknown as { unref(): void }).unref()
    return keeper
  }
  throw new AppError(
    'ERR_INIT_FAILED',
    'User namespaces are not available: unshare --user failed. Install util-linux, and allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns).',
    { program: 'unshare' },
  )
}

async function stopKeeper(keeper: ChildProcess): Promise<void> {
  if (keeper.exitCode !== null || keeper.signalCode !== null) return
  keeper.ref()
  const ended = once(keeper, 'exit')
  keeper.kill('SIGKILL')
  await ended
}

async function chooseMapping(requested: Readonly<{ uidBase: number; idCount: number }>): Promise<Mapping> {
  const uid = process.getuid!()
  const gid = process.getgid!()
  if (uid === 0 && (await mayLend('uid_map', requested)) && (await mayLend('gid_map', requested))) {
    const range = [{ inside: 0, outside: requested.uidBase, count: requested.idCount }]
    return { uids: range, gids: range, by: 'file' }
  }
  const only = (limitation: string): Mapping => ({
    uids: [{ inside: 0, outside: uid, count: 1 }],
    gids: [{ inside: 0, outside: gid, count: 1 }],
    by: 'file',
    limitation,
  })
  if (!(await isInstalled('newuidmap')) || !(await isInstalled('newgidmap'))) {
    return only('newuidmap and newgidmap are missing: install the package uidmap.')
  }
  const names = [await accountName(uid), String(uid)]
  const others = requested.idCount - 1
  const uids = await subordinateRanges('/etc/subuid', names, others)
  const gids = await subordinateRanges('/etc/subgid', names, others)
  const files = [uids.total < others ? '/etc/subuid' : '', gids.total < others ? '/etc/subgid' : ''].filter(Boolean)
  if (files.length > 0) {
    const advice = `have root run: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 NAME, with ids that no other user has.`
    return only(`${files.join(' and ')} give this user fewer than ${others} ids: ${advice}`)
  }
  return {
    uids: [{ inside: 0, outside: uid, count: 1 }, ...uids.ranges],
    gids: [{ inside: 0, outside: gid, count: 1 }, ...gids.ranges],
    by: 'setuid programs',
  }
}

/** Root in a container may have only the ids that it was given, which need not include `uidBase`. */
async function mayLend(map: string, requested: Readonly<{ uidBase: number; idCount: number }>): Promise<boolean> {
  const ranges = (await readFile(`/proc/self/${map}`, 'utf8')).trim().split('\n')
  return ranges.some((line) => {
    const [inside, , count] = line.trim().split(/\s+/).map(Number)
    return requested.uidBase >= inside! && requested.uidBase + requested.idCount <= inside! + count!
  })
}

async function isInstalled(program: string): Promise<boolean> {
  for (const directory of SYSTEM_PATH.split(delimiter)) {
    const found = await access(join(directory, program)).then(
      () => true,
      () => false,
    )
    if (found) return true
  }
  return false
}

/** The name as /etc/subuid spells it. The system is asked, because an account may come from a directory service. */
async function accountName(uid: number): Promise<string> {
  const found = await execute('getent', ['passwd', String(uid)], { env: environment }).catch(() => undefined)
  return found?.stdout.split(':')[0] ?? String(uid)
}

/** The ranges of one account, concatenated from id 1 on until there are enough ids. */
export async function subordinateRanges(
  file: string,
  names: readonly string[],
  requestedCount: number,
): Promise<Readonly<{ ranges: readonly IdRange[]; total: number }>> {
  const text = await readFile(file, 'utf8').catch(() => '')
  const ranges: IdRange[] = []
  let total = 0
  for (const line of text.split('\n')) {
    const [name, first, length] = line.trim().split(':')
    if (!names.includes(name!) || !/^\d+$/.test(first ?? '') || !/^\d+$/.test(length ?? '')) continue
    const count = Math.min(Number(length), requestedCount - total)
    if (count <= 0) continue
    ranges.push({ inside: 1 + total, outside: Number(first), count })
    total += count
  }
  return { ranges, total }
}

async function applyMapping(pid: number, mapping: Mapping): Promise<void> {
  try {
    if (mapping.by === 'setuid programs') {
      await execute('newuidmap', [String(pid), ...mapArguments(mapping.uids)], { env: environment })
      await execute('newgidmap', [String(pid), ...mapArguments(mapping.gids)], { env: environment })
      return
    }
    // Without CAP_SETGID in the parent namespace, the kernel accepts a gid map only after setgroups was denied.
    if (mapping.limitation !== undefined) await writeFile(`/proc/${pid}/setgroups`, 'deny')
    await writeFile(`/proc/${pid}/uid_map`, mapText(mapping.uids))
    await writeFile(`/proc/${pid}/gid_map`, mapText(mapping.gids))
  } catch (cause) {
    throw new AppError(
      'ERR_INIT_FAILED',
      'This machine refused the ids of a user namespace. Check /etc/subuid and /etc/subgid, and sysctl kernel.apparmor_restrict_unprivileged_userns.',
      { mapped: mapping.by },
      { cause },
    )
  }
}

const countOf = (ranges: readonly IdRange[]): number => ranges.reduce((sum, range) => sum + range.count, 0)
const mapArguments = (ranges: readonly IdRange[]): string[] =>
  ranges.flatMap(({ inside, outside, count }) => [inside, outside, count].map(String))
const mapText = (ranges: readonly IdRange[]): string =>
  ranges.map(({ inside, outside, count }) => `${inside} ${outside} ${count}\n`).join('')
