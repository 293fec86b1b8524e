import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../kernel/clock.ts'
import { systemRandom } from '../kernel/random.ts'
import { callRoot } from './call-root.ts'
import { createControlGroups } from './cgroups.ts'
import { type EgressBroker, openEgressBroker } from './egress-broker.ts'
import { createFifos } from './fifos.ts'
import { createHandlers } from './handlers.ts'
import { createHostMounts } from './host-mounts.ts'
import { createIdRanges } from './id-ranges.ts'
import { createImages } from './images/index.ts'
import { startInitProcesses } from './init-processes.ts'
import { type Launcher, startLauncher } from './launcher.ts'
import { createHostNames } from './network/host-names.ts'
import { createNetworkHub, type NetworkHub } from './network/network-hub.ts'
import { startSockets } from './network/sockets.ts'
import { createPrewarmPool } from './prewarm-pool.ts'
import { createProcessors } from './processors.ts'
import { FIFO_FOLDERS, PROTOCOL_VERSION, SOCKET_NAME } from './protocol.ts'
import { createRegistry } from './registry.ts'
import { runCommand } from './run-command.ts'
import { seccompFilter } from './seccomp/filter.ts'
import { serveRequests } from './serve-requests.ts'
import { createStorage } from './storage.ts'
import { createSupervisorLog } from './supervisor-log.ts'
import { SYSTEM_PATH } from './user-namespace.ts'
import { watchStateFolder } from './watch-state-folder.ts'

/**
 * The process that owns the workspaces. launch.sh starts it in namespaces of its own. It outlives the server, which reconnects
 * after a restart. When it exits, every process in every workspace is killed.
 */
const ROOT = '/mnt/state'
/** Below ROOT, because only launch.sh may write to ROOT itself. */
const SOCKETS = join(ROOT, 'sockets')
/** Where ranges.pl listens, if the supervisor was started by root. */
const ROOT_HELPER = join(ROOT, 'ranges.sock')
/** The socket of the helper that launch.sh starts in the host's network namespace. */
const HOST_NETWORK_SOCKET = 'host.sock'
/** Where launch.sh mounts the search program, if this machine has one. */
const SEARCH_PROGRAM_SOURCE = '/mnt/node/rg'
/** An empty folder from launch.sh that the ids of every workspace can reach. */
const STAGE = '/mnt/stage'
const SHARED_MEMORY_BYTES = 64 * 1024 * 1024
/** Without a connected server and without a running workspace the supervisor exits after this time. */
const IDLE_EXIT_MS = 30_000
const IDLE_CHECK_MS = 1_000
/** launch.sh writes our pid on the host to this file. Only it knows that pid. */
const PID_NAME = 'supervisor.pid'
const PID_POLL_MS = 2
const STDERR = 2

const logger = createSupervisorLog(STDERR)
const end = (): void => process.exit(0)

async function main(): Promise<void> {
  // Root file systems need their exact modes. Private files are created with a mode of their own.
  process.umask(0o022)
  const kind = process.env['STORE_KIND'] === 'btrfs' ? 'btrfs' : 'plain'
  const ids = Number(process.env['CASTELLAN_SUPERVISOR_IDS'])
  const launcher = startLauncher({ enterSeconds: Number(process.env['ENTER_SECONDS']) })
  for (const name of readdirSync(join(ROOT, 'run'))) rmSync(join(ROOT, 'run', name), { recursive: true, force: true })
  const fifoFolder = join(ROOT, ...FIFO_FOLDERS)
  mkdirSync(fifoFolder, { mode: 0o700 })
  const filterPath = join(ROOT, 'run/seccomp.bpf')
  writeFileSync(filterPath, seccompFilter(process.arch === 'arm64' ? 'arm64' : 'x64', { hasOneId: ids === 1 }))
  const fifos = await createFifos(fifoFolder, launcher)
  const storage = await createStorage({
    root: ROOT,
    mounts: '/mnt/roots',
    kind,
    launcher,
    setQuota: async (id, bytesMax) => void (await callRoot(ROOT_HELPER, `limit ${id} ${bytesMax}`)),
    run: runCommand,
    clock: systemClock,
    random: systemRandom,
  })
  const controlGroups = createControlGroups(process.env['CASTELLAN_SUPERVISOR_CGROUPS'] ?? '')
  const { initProcessMaker, idRanges } = await openWorkspaceParts(launcher, filterPath)
  const images = createImages({ root: join(ROOT, 'images'), clock: systemClock, random: systemRandom })
  const { network, egress } = await openNetwork()
  const registry = await createRegistry({
    root: ROOT,
    launcher,
    fifos,
    storage,
    prewarmPool: createPrewarmPool({ initProcessMaker, controlGroups, idRanges, logger }),
    images,
    network,
    egress,
    ids,
    seccompFilter: filterPath,
    hasDiskLimits: kind === 'btrfs',
    hasMemoryLimits: controlGroups.controllers.includes('memory'),
    hasProcessGroups: controlGroups.controllers.includes('pids'),
    mountedFiles: '/mnt/shown',
    hostMount: createHostMounts((process.env['FOLDERS'] ?? '').split('\n')),
    processorsFor: createProcessors(),
    clock: systemClock,
    random: systemRandom,
    logger,
  })
  const clients = new Set<Readonly<{ bootId: string }>>()
  const handlers = createHandlers({
    registry,
    images,
    network,
    egress,
    clock: systemClock,
    clients,
    isIdleBut: (bootId) => registry.runningCount() === 0 && [...clients].every((client) => client.bootId === bootId),
    facts: () => ({
      protocol: PROTOCOL_VERSION,
      version: process.env['CASTELLAN_VERSION'] ?? '',
      store: kind,
      ids,
      cgroups: controlGroups.controllers,
      sharedIdsBecause: idRanges.problem ?? null,
      running: registry.runningCount(),
    }),
    shutdown: end,
  })
  for (const { exited } of [launcher, initProcessMaker]) void exited.then(() => process.exit(1))
  const socketPath = join(SOCKETS, SOCKET_NAME)
  rmSync(socketPath, { force: true })
  // A client may need our pid as soon as it can connect.
  while (!existsSync(join(ROOT, PID_NAME))) await new Promise((resolve) => setTimeout(resolve, PID_POLL_MS))
  const server = serveRequests(handlers, logger).listen(socketPath)
  await once(server, 'listening')
  chmodSync(socketPath, 0o600)
  const stateFolder = watchStateFolder(ROOT, process.env['STATE'] ?? ROOT)
  exitWhenIdle({ isNeeded: () => clients.size > 0 || registry.runningCount() > 0, isLost: stateFolder.isLost })
}

/** The networks between workspaces, to the host and to the internet. */
async function openNetwork(): Promise<{ network: NetworkHub; egress: EgressBroker }> {
  const hostNetworkPath = join(SOCKETS, HOST_NETWORK_SOCKET)
  const sockets = startSockets({ hostNetworkPath, logger })
  const network = createNetworkHub({
    run: runCommand,
    sockets,
    searchPath: process.env['PATH'] ?? SYSTEM_PATH,
    socketDirectory: SOCKETS,
    logDirectory: ROOT,
    logger,
  })
  await network.open()
  const egress = await openEgressBroker({
    caDirectory: join(ROOT, 'authority'),
    sockets,
    resolve: createHostNames({ hostNetworkPath, random: systemRandom }),
    clock: systemClock,
    random: systemRandom,
    logger,
  })
  return { network, egress }
}

/** What starts init processes, and the ids that they get. */
async function openWorkspaceParts(launcher: Launcher, seccompFilter: string) {
  const initProcessMaker = startInitProcesses({
    seccompFilter,
    stage: STAGE,
    searchProgram: existsSync(SEARCH_PROGRAM_SOURCE) ? SEARCH_PROGRAM_SOURCE : undefined,
    sharedMemoryBytes: SHARED_MEMORY_BYTES,
  })
  const idRanges = await createIdRanges({
    root: ROOT,
    views: '/mnt/ids',
    socketPath: ROOT_HELPER,
    hasRanges: Number(process.env['RANGES'] ?? 0) > 0,
    launcher,
    logger,
  })
  return { initProcessMaker, idRanges }
}

/** If the state directory was removed, no server can reach the workspaces any more, so the supervisor exits at once. */
function exitWhenIdle({ isNeeded, isLost }: Record<'isNeeded' | 'isLost', () => boolean>): void {
  let neededMs = systemClock.monotonicMs()
  setInterval(() => {
    if (isLost()) {
      logger.warn('workspace folder was removed')
      end()
    } else if (isNeeded()) neededMs = systemClock.monotonicMs()
    else if (systemClock.monotonicMs() - neededMs > IDLE_EXIT_MS) end()
  }, IDLE_CHECK_MS)
}

process.on('SIGTERM', end)
// An exit would kill every workspace, while an error here concerns one request at most.
for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
  process.on(event, (error: unknown) => {
    logger.error(event, { error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  })
}
// What the supervisor starts has no use for it.
delete process.env['NODE_COMPILE_CACHE']
// launch.sh wants only the compiled code, which Node writes at the exit.
if (process.argv.includes('--compile')) process.exit(0)
main().catch((error: unknown) => {
  logger.error('supervisor cannot start', {
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
  })
  process.exit(1)
})
