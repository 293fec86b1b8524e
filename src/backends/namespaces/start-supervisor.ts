import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { mkdir, open, readFile, rename, stat } from 'node:fs/promises'
import { getCompileCacheDir } from 'node:module'
import { basename, delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AppError } from '../../contract/app-error.ts'
import { systemClock } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { SOCKET_NAME } from '../../supervisor/protocol.ts'
import { LOG_BYTES_MAX } from '../../supervisor/supervisor-log.ts'
import { chooseIdMaps, SYSTEM_PATH, UID_BASE } from '../../supervisor/user-namespace.ts'
import { connectTo } from './supervisor-client.ts'

export type SupervisorOptions = Readonly<{
  /** The state directory of the back end. */
  state: string
  /** If run by root: the size of the btrfs image for the store in GiB; 0 uses plain folders. */
  storeGb: number
  /** Free space in MiB that the store leaves on its disk. */
  hostReserveMb: number
  /** How much of the store one tenant may use, in percent, if the store has quotas. */
  tenantSharePercent: number
  /** Host folders that workspaces may mount, as `ro PATH` or `rw PATH`. A running supervisor keeps those it was started with. */
  folders?: readonly string[] | undefined
  /** How long entering a workspace may take; by default `ENTER_SECONDS`. */
  enterSeconds?: number | undefined
  version: string
  /** The search path for programs; by default the system's. */
  path?: string | undefined
}>

const WAIT_MS = 60_000
const ENTER_SECONDS = 20
const POLL_MS = 5
/** Between two attempts, while another supervisor that starts or ends holds the lock. */
const RETRY_MS = 50
/** Readable as well, because the supervisor truncates the log itself. */
const LOG_FLAGS = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
const EXIT_ALREADY_RUNNING = 75
const QUOTED_CHARS_MAX = 500
const FOLDER_NAME_CHARS = 16

/** The packages of the required programs, for messages and for doctor. */
export const neededPrograms = [
  { program: 'perl', package: 'perl' },
  { program: 'unshare', package: 'util-linux' },
  { program: 'nsenter', package: 'util-linux' },
  { program: 'flock', package: 'util-linux' },
] as const

/** Programs that workspaces can do without, and what is missing then. */
export const optionalPrograms = [
  { program: 'slirp4netns', package: 'slirp4netns', purpose: 'all of the internet for workspaces' },
  { program: 'nft', package: 'nftables', purpose: 'networks between workspaces' },
  { program: 'ip', package: 'iproute2', purpose: 'networks between workspaces' },
  { program: 'mkfs.btrfs', package: 'btrfs-progs', purpose: 'disk limits and instant snapshots, with root' },
  { program: 'newuidmap', package: 'uidmap', purpose: 'installing packages, without root' },
  { program: 'openssl', package: 'openssl', purpose: 'credentials in the egress proxy' },
  { program: 'debootstrap', package: 'debootstrap', purpose: 'castellan image build --from debootstrap' },
] as const

export const socketPathOf = (state: string): string => join(state, SOCKET_NAME)

/**
 * Ensures that a supervisor listens, and starts one if necessary. If two callers try at once, the second finds the lock held and
 * waits. A caller that comes while the previous supervisor is exiting waits too, and tries again.
 */
export async function ensureSupervisor(options: SupervisorOptions): Promise<void> {
  const socketPath = socketPathOf(options.state)
  if (await isListening(socketPath)) return
  requirePrograms(options.path ?? SYSTEM_PATH)
  await mkdir(options.state, { recursive: true, mode: 0o700 })
  const deadlineMs = systemClock.monotonicMs() + WAIT_MS
  const logPath = join(options.state, 'supervisor.log')
  await rotate(logPath)
  const logStart = await sizeOf(logPath)
  let exitCode: number | undefined
  while (systemClock.monotonicMs() < deadlineMs) {
    exitCode = await launch(options, logPath, deadlineMs)
    if (exitCode === undefined) return
    if (exitCode !== EXIT_ALREADY_RUNNING) break
    await pause(RETRY_MS)
    if (await isListening(socketPath)) return
  }
  throw cannotStart(await endOf(logPath, logStart), exitCode)
}

/** Undefined once a supervisor listens; otherwise the exit code of the start. */
async function launch(options: SupervisorOptions, logPath: string, deadlineMs: number): Promise<number | undefined> {
  let exitCode: number | undefined
  await spawnLaunch(options, logPath, (code) => {
    exitCode = code
  })
  while (systemClock.monotonicMs() < deadlineMs) {
    if (await isListening(socketPathOf(options.state))) return undefined
    if (exitCode !== undefined) return exitCode
    await pause(POLL_MS)
  }
  return EXIT_ALREADY_RUNNING
}

/** Empty if there is none for this machine. */
const searchProgram = (): Promise<string> =>
  import('@vscode/ripgrep').then(
    ({ rgPath }) => rgPath,
    () => '',
  )

/** Beside our own compiled code, for each installation and each version of Node; empty if ours is not kept. */
function compiledFolder(program: string, version: string): string {
  const own = getCompileCacheDir()
  if (own === undefined) return ''
  const name = sha256Hex(JSON.stringify([program, version, basename(own)])).slice(0, FOLDER_NAME_CHARS)
  return join(dirname(own), `supervisor-${name}`)
}

/** Detached: neither launch.sh nor the supervisor ends with this process. launch.sh may have exited before this resolves. */
async function spawnLaunch(options: SupervisorOptions, logPath: string, onExit: (code: number) => void): Promise<void> {
  const maps = await chooseIdMaps()
  const program = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '')
  const log = await open(logPath, LOG_FLAGS, 0o600)
  const child = spawn('/bin/sh', [join(program, 'src/supervisor/launch.sh')], {
    detached: true,
    stdio: ['ignore', log.fd, log.fd],
    env: {
      PATH: options.path ?? SYSTEM_PATH,
      STATE: options.state,
      PROGRAM: program,
      NODE: process.execPath,
      RG: await searchProgram(),
      COMPILED: compiledFolder(program, options.version),
      UID_BASE: String(UID_BASE),
      UID_MAP: maps.uids,
      GID_MAP: maps.gids,
      ID_COUNT: String(maps.count),
      STORE_GB: String(options.storeGb),
      RESERVE_MB: String(options.hostReserveMb),
      ENTER_SECONDS: String(options.enterSeconds ?? ENTER_SECONDS),
      FOLDERS: (options.folders ?? []).join('\n'),
      TENANT_SHARE: String(options.tenantSharePercent),
      CASTELLAN_VERSION: options.version,
    },
  })
  child.on('exit', (code) => onExit(code ?? 1)).on('error', () => onExit(1))
  child.unref()
  await log.close()
}

function requirePrograms(path: string): void {
  const missing = neededPrograms.filter(({ program }) => !isInstalled(program, path))
  if (missing.length === 0) return
  const programs = missing.map(({ program }) => program)
  const packages = [...new Set(missing.map(({ package: name }) => name))]
  throw new AppError(
    'ERR_CAPABILITY_MISSING',
    `Workspaces need ${programs.join(', ')}, which is not on this machine. Install ${packages.join(' ')}.`,
    { programs, packages },
  )
}

function isInstalled(program: string, path: string): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** Retains the previous log. A running supervisor bounds its own. */
async function rotate(logPath: string): Promise<void> {
  if ((await sizeOf(logPath)) > LOG_BYTES_MAX) await rename(logPath, `${logPath}.1`).catch(() => {})
}

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )

async function endOf(logPath: string, start: number): Promise<string> {
  const text = (await readFile(logPath).catch(() => Buffer.alloc(0))).subarray(start).toString()
  return text.trimEnd().split('\n').slice(-3).join(' ').slice(-QUOTED_CHARS_MAX)
}

function cannotStart(said: string, exitCode: number | undefined): AppError {
  const isSlow = exitCode === undefined || exitCode === EXIT_ALREADY_RUNNING
  const reason = isSlow
    ? `the supervisor did not answer within ${WAIT_MS} ms. ${said}`
    : said || `it ended with ${exitCode}`
  return new AppError(
    'ERR_CAPABILITY_MISSING',
    `Workspaces cannot start on this machine: ${reason.trim()} Run castellan doctor.`,
    { reason, ...(isSlow ? {} : { exit_code: exitCode }) },
  )
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

export function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    try {
      const socket = connectTo(path)
      socket.on('connect', () => {
        socket.destroy()
        resolve(true)
      })
      socket.on('error', () => resolve(false))
    } catch {
      resolve(false)
    }
  })
}
