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

/** Makes sure that a supervisor listens, starting one if none does. Two callers at once start one. */
export async function ensureSupervisor(place: SupervisorPlace): Promise<void> {
  const socketPath = socketPathOf(place.state)
  if (await isListening(socketPath)) return
  await mkdir(place.state, { recursive: true, mode: 0o700 })
  const logPath = join(place.state, 'supervisor.log')
  const log = await open(logPath, 'a', 0o600)
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
  let exitCode: number | null = null
  child.on('exit', (code) => {
    exitCode = code ?? 1
  })
  child.on('error', () => {
    exitCode = 1
  })
  const deadlineMs = systemClock.monotonicMs() + WAIT_MS
  while (systemClock.monotonicMs() < deadlineMs) {
    if (await isListening(socketPath)) return
    if (exitCode !== null && exitCode !== EXIT_ALREADY_RUNNING) break
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  const tail = (await readFile(logPath, 'utf8').catch(() => '')).trimEnd().split('\n').slice(-3).join(' ')
  throw new AppError(
    'ERR_CAPABILITY_MISSING',
    `Workspaces cannot start on this machine: ${tail || `the supervisor did not answer within ${WAIT_MS} ms`}. Run castellan doctor.`,
    {},
  )
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
