import { spawn } from 'node:child_process'
import { mkdir, open, readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AppError } from '../../contract/app-error.ts'
import { systemClock } from '../../kernel/clock.ts'
import { SOCKET_NAME } from '../../supervisor/protocol.ts'
import { chooseIdMaps, UID_BASE } from '../../supervisor/user-namespace.ts'

export type SupervisorPlace = Readonly<{
  /** Folder of the workspaces' state. */
  state: string
  /** Size of the btrfs file for the store in GiB, with root; 0 uses plain folders. */
  storeGb: number
  version: string
}>

const WAIT_MS = 20_000
const POLL_MS = 5
const RETRY_MS = 100
/** Of earlier supervisors' words; a longer log is begun anew. */
const LOG_BYTES_MAX = 10 * 1024 * 1024
const EXIT_ALREADY_RUNNING = 75

/** Packages that the back end's programs are in, for messages and for doctor. */
export const neededPrograms = [
  { program: 'bwrap', package: 'bubblewrap' },
  { program: 'perl', package: 'perl' },
  { program: 'unshare', package: 'util-linux' },
  { program: 'nsenter', package: 'util-linux' },
  { program: 'flock', package: 'util-linux' },
] as const

/** What workspaces do without, and what they lack then. */
export const optionalPrograms = [
  { program: 'slirp4netns', package: 'slirp4netns', purpose: 'the internet and port forwards' },
  { program: 'nft', package: 'nftables', purpose: 'networks between workspaces' },
  { program: 'ip', package: 'iproute2', purpose: 'networks between workspaces' },
  { program: 'mkfs.btrfs', package: 'btrfs-progs', purpose: 'disk limits and instant snapshots, with root' },
  { program: 'newuidmap', package: 'uidmap', purpose: 'installing packages, without root' },
  { program: 'openssl', package: 'openssl', purpose: 'credentials in the egress proxy' },
  { program: 'debootstrap', package: 'debootstrap', purpose: 'castellan image build --from debootstrap' },
] as const

export const socketPathOf = (state: string): string => join(state, SOCKET_NAME)

/**
 * Makes sure that a supervisor listens, starting one if none does. Two callers at once start one: the second to try finds
 * the lock held and waits. So does one who comes while the last supervisor is still dying, and then tries again.
 */
export async function ensureSupervisor(place: SupervisorPlace): Promise<void> {
  const socketPath = socketPathOf(place.state)
  if (await isListening(socketPath)) return
  await mkdir(place.state, { recursive: true, mode: 0o700 })
  const deadlineMs = systemClock.monotonicMs() + WAIT_MS
  let launch = await startLaunch(place)
  let attemptMs = systemClock.monotonicMs()
  while (systemClock.monotonicMs() < deadlineMs) {
    if (await isListening(socketPath)) return
    const code = launch.exitCode()
    if (code !== undefined && code !== EXIT_ALREADY_RUNNING) break
    if (code === EXIT_ALREADY_RUNNING && systemClock.monotonicMs() - attemptMs > RETRY_MS) {
      launch = await startLaunch(place)
      attemptMs = systemClock.monotonicMs()
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  const said = (await readFile(logPathOf(place), 'utf8').catch(() => '')).slice(launch.logStart).trim()
  const reason = said.split('\n').slice(-3).join(' ') || `the supervisor did not answer within ${WAIT_MS} ms`
  throw new AppError(
    'ERR_CAPABILITY_MISSING',
    `Workspaces cannot start on this machine: ${reason}. Run castellan doctor.`,
    {
      reason,
    },
  )
}

const logPathOf = ({ state }: SupervisorPlace): string => join(state, 'supervisor.log')

type Launch = Readonly<{
  /** Where this launch's own words begin in the log. */
  logStart: number
  exitCode(): number | undefined
}>

/** The launcher of the supervisor, detached: neither it nor the supervisor ends with this process. */
async function startLaunch(place: SupervisorPlace): Promise<Launch> {
  const log = await open(logPathOf(place), 'a', 0o600)
  const { size } = await log.stat()
  if (size > LOG_BYTES_MAX) await log.truncate(0)
  const maps = await chooseIdMaps()
  const program = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '')
  const child = spawn('/bin/sh', [join(program, 'src/supervisor/launch.sh')], {
    detached: true,
    stdio: ['ignore', log.fd, log.fd],
    env: {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      STATE: place.state,
      PROGRAM: program,
      NODE: process.execPath,
      UID_BASE: String(UID_BASE),
      UID_MAP: maps.uids,
      GID_MAP: maps.gids,
      ID_COUNT: String(maps.count),
      STORE_GB: String(place.storeGb),
      CASTELLAN_VERSION: place.version,
    },
  })
  await log.close()
  child.unref()
  let ended: number | undefined
  child.on('exit', (code) => {
    ended = code ?? 1
  })
  child.on('error', () => {
    ended = 1
  })
  return { logStart: size > LOG_BYTES_MAX ? 0 : size, exitCode: () => ended }
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}
