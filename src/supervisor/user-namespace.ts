import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { AppError } from '../contract/app-error.ts'

/** The host ids that root lends out. Nobody's account is up here, so a process that gets out of a namespace is nobody. */
export const UID_BASE = 1_500_000_000
export const ID_COUNT = 65_536

/** System programs are looked for here, whatever the caller's own path is. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

type UserNamespaceOptions = Readonly<{
  /** With root: host id of the namespace's id 0, for users and groups alike. */
  uidBase?: number
  idCount?: number
}>

export type UserNamespace = Readonly<{
  /** The process that keeps the namespace. It ends when this process does, however that happens. */
  pid: number
  /** How many ids the namespace has, from 0 on without a gap; 1 when there is only its root. */
  idCount: number
  /** Why there is only one id, and what to do about it. */
  limitation: string | undefined
  /** Host ids of the namespace's root: what has to own the directories that it works in. */
  owner: Readonly<{ uid: number; gid: number }>
  /** Goes before a program and its arguments, which then run as root of the namespace, in the directory they are started in. */
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
 * A user namespace that stays open until it is closed, with 65536 ids where that is allowed.
 *
 * Root lends out host ids from `uidBase` on. For an ordinary user the namespace's root is that user, and the other ids are
 * those that `/etc/subuid` and `/etc/subgid` give; without them there are no other ids.
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
    // Where groups cannot be dropped nsenter must not try; the user is root of the namespace without it.
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

/** The maps of such a namespace in the words of newuidmap, for namespaces that are made by other means: the same ids are the same files. */
export async function chooseIdMaps(): Promise<Readonly<{ uids: string; gids: string; count: number }>> {
  const { uids, gids } = await chooseMapping({ uidBase: UID_BASE, idCount: ID_COUNT })
  return { uids: mapArguments(uids).join(' '), gids: mapArguments(gids).join(' '), count: countOf(uids) }
}

const execute = promisify(execFile)
const environment = { PATH: SYSTEM_PATH, LANG: 'C' }

/**
 * It echoes what it reads, so an answer means that the namespace is there, and the end of its input is its own. In a
 * session of its own a Ctrl-C does not reach it: the namespace is still needed to clean up.
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
    'This machine allows no user namespace here: unshare --user failed. Install util-linux, and allow them (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns).',
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

async function chooseMapping(wanted: Readonly<{ uidBase: number; idCount: number }>): Promise<Mapping> {
  const uid = process.getuid!()
  const gid = process.getgid!()
  if (uid === 0 && (await mayLend('uid_map', wanted)) && (await mayLend('gid_map', wanted))) {
    const range = [{ inside: 0, outside: wanted.uidBase, count: wanted.idCount }]
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
  const others = wanted.idCount - 1
  const uids = await subordinateRanges('/etc/subuid', names, others)
  const gids = await subordinateRanges('/etc/subgid', names, others)
  const files = [uids.total < others ? '/etc/subuid' : '', gids.total < others ? '/etc/subgid' : ''].filter(Boolean)
  if (files.length > 0) {
    const advice = `have root run: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 NAME, with ids that nobody else has.`
    return only(`${files.join(' and ')} give this user fewer than ${others} ids: ${advice}`)
  }
  return {
    uids: [{ inside: 0, outside: uid, count: 1 }, ...uids.ranges],
    gids: [{ inside: 0, outside: gid, count: 1 }, ...gids.ranges],
    by: 'setuid programs',
  }
}

/** Root of a container may have no more than the ids it was given, and those need not reach up to the lent ones. */
async function mayLend(map: string, wanted: Readonly<{ uidBase: number; idCount: number }>): Promise<boolean> {
  const ranges = (await readFile(`/proc/self/${map}`, 'utf8')).trim().split('\n')
  return ranges.some((line) => {
    const [inside, , count] = line.trim().split(/\s+/).map(Number)
    return wanted.uidBase >= inside! && wanted.uidBase + wanted.idCount <= inside! + count!
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

/** The name as /etc/subuid has it. An account may also come from a directory service, so the system is asked. */
async function accountName(uid: number): Promise<string> {
  const found = await execute('getent', ['passwd', String(uid)], { env: environment }).catch(() => undefined)
  return found?.stdout.split(':')[0] ?? String(uid)
}

/** The lines of one account, put one after the other from id 1 on, until there are enough ids. */
export async function subordinateRanges(
  file: string,
  names: readonly string[],
  wantedCount: number,
): Promise<Readonly<{ ranges: readonly IdRange[]; total: number }>> {
  const text = await readFile(file, 'utf8').catch(() => '')
  const ranges: IdRange[] = []
  let total = 0
  for (const line of text.split('\n')) {
    const [name, first, length] = line.trim().split(':')
    if (!names.includes(name!) || !/^\d+$/.test(first ?? '') || !/^\d+$/.test(length ?? '')) continue
    const count = Math.min(Number(length), wantedCount - total)
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
    // Without privilege over groups, a group map is only accepted once groups can no longer be dropped.
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
