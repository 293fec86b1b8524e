import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { AppError } from '../contract/app-error.ts'
import { SEARCH_PROGRAM } from '../domains/workspaces/backend.ts'
import { systemClock } from '../kernel/clock.ts'
import type { Fifos } from './fifos.ts'
import type { CommandEnd, Launcher } from './launcher.ts'
import { commandLineOf, type ProcessEntry, processesOf, signalProcess } from './processes.ts'
import type { Seat } from './seats.ts'

/** What a workspace's namespaces are made of. */
export type HolderSpec = Readonly<{
  hostname: string
  root: string
  /** Read-only parts of the host's own file system. */
  binds: readonly Readonly<{ source: string; target: string }>[]
  /** What is put where SEARCH_PROGRAM says, if there is one. */
  searchProgram: string | undefined
  seccompFilter: string
  /** Whether it has all user ids that the supervisor has, or root only. */
  hasIds: boolean
  sharedMemoryMb: number
  logPath: string
}>
/** The process that keeps a workspace's namespaces; when it ends, the kernel ends everything in them. */
export type Holder = Readonly<{
  /** The first process inside, as the supervisor sees it. */
  initPid: number
  ended: Promise<void>
  /** Ends what runs, gently first. */
  stop(graceMs: number): Promise<void>
}>

/**
 * The first process of a workspace: nothing inside can signal it, and it collects what others leave behind, because the
 * shell waits for any child. What it waits for reads from a pipe that only we write to, and never do; it may be killed as
 * often as somebody likes. An image needs no program for this but a shell. It keeps nothing open that others could write
 * to through it: the log is on the host's disk.
 */
const HOLD = 'exec 8<&0; echo ready; exec >/dev/null 2>&1; while :; do read line <&8 & wait $!; done'
const HOLD_COMMAND_LINE = `/bin/sh\0-c\0${HOLD}\0`
const POLL_MS = 10
const READY_MS_MAX = 20_000
const SAID_CHARS_MAX = 300

export async function startHolder(
  { launcher, fifos, seat }: Readonly<{ launcher: Launcher; fifos: Fifos; seat: Seat }>,
  spec: HolderSpec,
): Promise<Holder> {
  const userNamespacePid = spec.hasIds ? await openMappedNamespace(launcher) : undefined
  closeSync(openSync(spec.logPath, 'a', 0o600))
  const [stdin, stdout, info] = await Promise.all([fifos.writer(), fifos.reader(), fifos.reader()])
  const said = Promise.all([readAll(info.stream), firstOf(stdout.stream)])
  try {
    const { pid, ended } = await seat.hold({
      stdin: stdin.path,
      stdout: stdout.path,
      log: spec.logPath,
      info: info.path,
      seccompFilter: spec.seccompFilter,
      userNamespacePid,
      argv: ['--clearenv', ...holderArguments(spec, userNamespacePid !== undefined)],
    })
    const gone = ended.then(() => undefined)
    const initPid = await initOf(pid, said, ended)
    await Promise.all([stdout.opened(), info.opened()])
    const kept = await stdin.opened()
    kept.on('error', () => {})
    void gone.then(() => kept.destroy())
    return holderOf(initPid, gone)
  } catch (error) {
    for (const { stream } of [stdout, info]) stream.destroy()
    await Promise.allSettled([stdout.opened(), info.opened(), stdin.abandon()])
    throw notStarted(spec.logPath, error)
  } finally {
    if (userNamespacePid !== undefined) signalProcess(userNamespacePid, 9)
  }
}

/** In the words of who failed: the log goes with the workspace. */
function notStarted(logPath: string, cause: unknown): AppError {
  const said = readFileSync(logPath, 'utf8').trimEnd().split('\n').at(-1)!.slice(0, SAID_CHARS_MAX)
  const advice = said.includes('/bin/sh') ? ' An image needs /bin/sh.' : ''
  const reason = said === '' ? String(cause) : said
  return new AppError('ERR_BACKEND_FAILED', `The workspace did not start: ${reason}.${advice}`, {}, { cause })
}

function holderArguments(spec: HolderSpec, mapped: boolean): string[] {
  return [
    ...(mapped ? ['--userns', '5'] : ['--unshare-user', '--uid', '0', '--gid', '0']),
    ...['--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
    ...['--hostname', spec.hostname, '--bind', spec.root, '/'],
    ...spec.binds.flatMap(({ source, target }) => ['--ro-bind', source, target]),
    ...['--proc', '/proc', '--dev', '/dev'],
    // There, because no link of an image can lead elsewhere: the folder is new.
    ...(spec.searchProgram === undefined ? [] : ['--ro-bind', spec.searchProgram, SEARCH_PROGRAM]),
    ...['--size', String(spec.sharedMemoryMb * 1024 * 1024), '--tmpfs', '/dev/shm', '--remount-ro', '/dev'],
    ...['--info-fd', '3', '--seccomp', '4', '--cap-drop', 'ALL', '--die-with-parent', '--as-pid-1', '--chdir', '/'],
    ...['--', '/bin/sh', '-c', HOLD],
  ]
}

/** The first process inside, once its shell has said that it is up. */
async function initOf(
  pid: number,
  said: Promise<readonly [string, string]>,
  ended: Promise<CommandEnd>,
): Promise<number> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    signalProcess(pid, 9)
    reject(new Error('its shell did not say that it is up'))
  }, READY_MS_MAX)
  try {
    const [info, ready] = await Promise.race([
      said,
      late,
      ended.then(({ exitCode, signal }): never => {
        throw new Error(`bwrap ended with ${exitCode ?? signal}`)
      }),
    ])
    if (ready === '') throw new Error('its shell did not say that it is up')
    return (JSON.parse(info) as { 'child-pid': number })['child-pid']
  } finally {
    clearTimeout(timer)
  }
}

const holderOf = (initPid: number, ended: Promise<void>): Holder => ({
  initPid,
  ended,
  async stop(graceMs) {
    for (const { pid } of commandsOf(initPid)) signalProcess(pid, 15)
    const deadline = systemClock.monotonicMs() + graceMs
    while (systemClock.monotonicMs() < deadline && commandsOf(initPid).length > 0) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    signalProcess(initPid, 9)
    await ended
  },
})

/** What runs in a workspace, without what keeps it. */
export function commandsOf(initPid: number): ProcessEntry[] {
  return processesOf(initPid).filter(
    ({ pid, parent, state }) => state !== 'Z' && !(parent === initPid && commandLineOf(pid) === HOLD_COMMAND_LINE),
  )
}

async function openMappedNamespace(launcher: Launcher): Promise<number> {
  const pid = await launcher.openUserNamespace()
  try {
    for (const map of ['uid_map', 'gid_map']) {
      writeFileSync(`/proc/${pid}/${map}`, sameIds(readFileSync(`/proc/self/${map}`, 'utf8')))
    }
    return pid
  } catch (error) {
    signalProcess(pid, 9)
    throw error
  }
}

/** Every id of ours for itself. No line may reach over the end of one of our own, though they follow each other. */
function sameIds(ownMap: string): string {
  const lines = ownMap.trim().split('\n')
  return lines
    .map((line) => {
      const [first, , count] = line.trim().split(/\s+/)
      return `${first} ${first} ${count}\n`
    })
    .join('')
}

async function readAll(stream: Readable): Promise<string> {
  let text = ''
  for await (const chunk of stream.setEncoding('utf8')) text += chunk
  return text
}

/** What comes first; nothing if there is none. */
function firstOf(stream: Readable): Promise<string> {
  return new Promise((resolve) => {
    stream.once('data', (chunk) => {
      resolve(String(chunk))
      stream.destroy()
    })
    stream.once('close', () => resolve(''))
  })
}
