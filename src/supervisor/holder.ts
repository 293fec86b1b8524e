import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { AppError } from '../contract/app-error.ts'
import { SEARCH_PROGRAM } from '../domains/workspaces/backend.ts'
import { systemClock } from '../kernel/clock.ts'
import type { Launcher } from './launcher.ts'
import { commandLineOf, type ProcessEntry, processesOf, signalProcess } from './processes.ts'

/** What a workspace's namespaces are made of. */
export type HolderSpec = Readonly<{
  hostname: string
  root: string
  /** Read-only parts of the host's own file system. */
  binds: readonly Readonly<{ source: string; target: string }>[]
  /** What is put where SEARCH_PROGRAM says, if there is one. */
  searchProgram: string | undefined
  seccompFilter: string
  /** Files that a process joins a control group by. */
  cgroups: readonly string[]
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
/** In the control group before anything of the image runs: what its shell starts must not be outside. */
const JOIN_AND_HOLD = 'for group in $0; do echo 0 >"$group" || exit 1; done; exec bwrap --clearenv "$@"'
const POLL_MS = 10
const READY_MS_MAX = 20_000
const SAID_CHARS_MAX = 300

export async function startHolder(launcher: Launcher, spec: HolderSpec): Promise<Holder> {
  const userNamespace = spec.hasIds ? await openMappedNamespace(launcher) : undefined
  const log = openSync(spec.logPath, 'a', 0o600)
  const filter = openSync(spec.seccompFilter, 'r')
  try {
    const child = spawn(
      '/bin/sh',
      ['-c', JOIN_AND_HOLD, spec.cgroups.join(' '), ...holderArguments(spec, userNamespace?.fd !== undefined)],
      {
        stdio: ['pipe', 'pipe', log, 'pipe', filter, userNamespace?.fd ?? 'ignore'],
        env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      },
    )
    child.stdin!.on('error', () => {})
    return await awaitHolder(child)
  } catch (error) {
    throw notStarted(spec.logPath, error)
  } finally {
    closeSync(log)
    closeSync(filter)
    if (userNamespace !== undefined) {
      closeSync(userNamespace.fd)
      signalProcess(userNamespace.pid, 9)
    }
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

async function awaitHolder(child: ChildProcess): Promise<Holder> {
  const ended = new Promise<void>((resolve) => {
    child.on('error', () => resolve())
    child.on('exit', () => resolve())
  })
  const info = readAll(child.stdio[3] as Readable)
  await Promise.race([
    new Promise<void>((resolve) => child.stdout!.once('data', () => resolve())),
    ended.then(() => {
      throw new Error(`bwrap ended with ${child.exitCode ?? child.signalCode}`)
    }),
    new Promise<never>((_, reject) => {
      const timer = setTimeout(() => {
        child.kill('SIGKILL')
        reject(new Error('its shell did not say that it is up'))
      }, READY_MS_MAX)
      child.stdout!.once('data', () => clearTimeout(timer))
      child.once('exit', () => clearTimeout(timer))
    }),
  ])
  const { 'child-pid': initPid } = JSON.parse(await info) as { 'child-pid': number }
  return {
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
  }
}

/** What runs in a workspace, without what keeps it. */
export function commandsOf(initPid: number): ProcessEntry[] {
  return processesOf(initPid).filter(
    ({ pid, parent, state }) => state !== 'Z' && !(parent === initPid && commandLineOf(pid) === HOLD_COMMAND_LINE),
  )
}

async function openMappedNamespace(launcher: Launcher): Promise<{ pid: number; fd: number }> {
  const pid = await launcher.openUserNamespace()
  try {
    for (const map of ['uid_map', 'gid_map']) {
      writeFileSync(`/proc/${pid}/${map}`, sameIds(readFileSync(`/proc/self/${map}`, 'utf8')))
    }
    return { pid, fd: openSync(`/proc/${pid}/ns/user`, 'r') }
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
