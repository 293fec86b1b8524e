import { constants } from 'node:fs'
import { mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'
import type {
  BackendInventory,
  LimitName,
  NetworkSpec,
  Resources,
  WorkspaceFiles,
  WorkspaceSpec,
  WorkspaceUsage,
} from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import { createKeyedMutex } from '../kernel/keyed-mutex.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import { createAddresses } from './addresses.ts'
import { applyNetwork } from './apply-network.ts'
import { PACKAGE_CAPABILITIES } from './capabilities.ts'
import type { EgressBroker } from './egress-broker.ts'
import { createEntryGate, type EntryGate } from './entry-gate.ts'
import type { Fifos } from './fifos.ts'
import { freezeProcesses, killProcesses } from './freeze.ts'
import type { HostMounts } from './host-mounts.ts'
import { createImageUses } from './image-uses.ts'
import type { Images } from './images/index.ts'
import { commandsOf, type InitProcess, startInitProcess } from './init-process.ts'
import { createInjectedFiles } from './injected-files.ts'
import { openInterruptedWrites } from './interrupted-writes.ts'
import { type Jobs, openJobs } from './jobs.ts'
import type { Launcher } from './launcher.ts'
import { createLimitWatch, type LimitWatch } from './limit-watch.ts'
import type { NetworkHub } from './network/index.ts'
import { createOpenatFiles } from './openat-files/index.ts'
import type { CommandEnd } from './perl-process.ts'
import type { PrewarmedSlot, PrewarmPool } from './prewarm-pool.ts'
import { whenProcessesEnd } from './process-limit.ts'
import { resourcesText } from './resources-text.ts'
import { type Command, type Entry, type RunningCommand, runInWorkspace } from './run-in-workspace.ts'
import type { DiskBounds, Storage } from './storage.ts'
import { createTenantShares, type TenantShares } from './tenant-shares.ts'
import { openWorkspaceLogs } from './workspace-logs.ts'

type RegistryDeps = Readonly<{
  root: string
  launcher: Launcher
  fifos: Fifos
  storage: Storage
  prewarmPool: PrewarmPool
  images: Images
  network: NetworkHub
  egress: EgressBroker
  /** The number of user ids in the supervisor's own namespace. */
  ids: number
  seccompFilter: string
  /** The file system enforces the disk quota of a workspace. */
  hasDiskLimits: boolean
  hasMemoryLimits: boolean
  hasProcessGroups: boolean
  /** A folder for files that are mounted into workspaces. The ids of every workspace can reach it. */
  mountedFiles: string
  hostMount: HostMounts
  processorsFor(vcpus: number): readonly number[]
  clock: Clock
  random: Random
  logger: Logger
}>

type Live = Readonly<{
  spec: WorkspaceSpec
  initProcess: InitProcess
  slot: PrewarmedSlot
  jobs: Jobs
  gate: EntryGate
  watch: LimitWatch
  run(command: Command): Promise<WatchedCommand>
  /** Commands that start later use the new CPUs. */
  resize(resources: Resources): void
}>

const PROCESSES_MAX = 1_024
const FILES_MAX = 65_536
const O_PATH = 0o10000000
const diskBytes = ({ resources }: Pick<WorkspaceSpec, 'resources'>): number => Math.round(resources.diskGb * 1024 ** 3)
const boundsOf = async (
  shares: TenantShares,
  spec: Pick<WorkspaceSpec, 'id' | 'resources' | 'network'>,
): Promise<DiskBounds> => ({ bytesMax: diskBytes(spec), group: await shares.take(spec.id, spec.network.tenant) })

/** `ended` also carries the limits that were hit while the command ran. */
type WatchedCommand = Omit<RunningCommand, 'ended'> & Readonly<{ ended: Promise<WatchedEnd> }>
type WatchedEnd = CommandEnd & Readonly<{ limitsHit: readonly LimitName[] }>

/** Opens what is stored of workspaces outside their disks. */
async function openStateFolders({ root, clock }: Pick<RegistryDeps, 'root' | 'clock'>) {
  const jobFolder = join(root, 'jobs')
  await mkdir(jobFolder, { recursive: true })
  const interruptedWrites = await openInterruptedWrites(join(root, 'writes'))
  return { jobFolder, interruptedWrites, logs: await openWorkspaceLogs(join(root, 'logs'), clock) }
}

export type Registry = Awaited<ReturnType<typeof createRegistry>>

/** All workspaces of the supervisor, stored and running. */
export async function createRegistry(deps: RegistryDeps) {
  const { root, storage } = deps
  const { jobFolder, interruptedWrites, logs } = await openStateFolders(deps)
  const addresses = await createAddresses(join(root, 'addresses'))
  const imageUses = await createImageUses(join(root, 'image-uses'))
  const shares = await createTenantShares(join(root, 'shares'))
  const injectedFiles = createInjectedFiles(deps)
  const live = new Map<string, Live>()
  /** Workspaces created by this supervisor in which nothing has run yet. */
  const untouched = new Set<string>()
  /** Serialises the changes of one workspace. */
  const { withLock } = createKeyedMutex()
  function requireLive(id: string): Live {
    const found = live.get(id)
    if (found === undefined) throw notRunning(id)
    return found
  }

  /** A failure is only logged: a workload that breaks its own `/etc` must not keep a policy from taking effect. */
  async function putNetworkFiles(id: string, put: () => Promise<unknown>): Promise<void> {
    await put().catch((error: unknown) =>
      deps.logger.warn('network settings of a workspace could not be applied', { id, error: String(error) }),
    )
  }

  async function create(spec: Omit<WorkspaceSpec, 'ip'>): Promise<{ ip: string }> {
    deps.prewarmPool.restock()
    await imageUses.take(spec.id, spec.image)
    const ip = await addresses.take(spec.id)
    if (!storage.has(spec.id)) {
      await storage.create(spec.id, await boundsOf(shares, spec), injectedFiles.ofWorkspace({ ...spec, ip }))
      untouched.add(spec.id)
    }
    return { ip }
  }

  async function start(spec: WorkspaceSpec): Promise<void> {
    if (live.has(spec.id)) return
    // A workspace that ended by itself may still be cleaning up.
    await cleanups.get(spec.id)
    const log = logs.of(spec.id)
    const held = await hold(spec).catch((error: unknown) => {
      log.error(reasonOf(error))
      throw error
    })
    const { initProcess } = held
    log.note(`started with ${resourcesText(spec.resources, deps)}`)
    live.set(spec.id, held)
    const cleaned = initProcess.ended.then(() => cleanUp(held))
    cleanups.set(spec.id, cleaned)
    const endpoint = { pid: initProcess.initPid, ip: spec.ip }
    try {
      await deps.egress.set(endpoint, spec.network)
      await deps.network.attach({ id: spec.id, ...endpoint }, spec.network)
    } catch (error) {
      log.error(reasonOf(error))
      await initProcess.stop(0)
      await cleaned
      throw error
    }
  }

  /** Starts everything of a workspace except its network. On an error nothing is left behind. */
  async function hold(spec: WorkspaceSpec): Promise<Live> {
    await imageUses.take(spec.id, spec.image)
    const image = await deps.images.find(spec.image)
    const processesMax = spec.resources.processes ?? PROCESSES_MAX
    const hasIds = deps.ids > 1
    if (!untouched.delete(spec.id)) {
      await putNetworkFiles(spec.id, () => storage.writeFiles(spec.id, injectedFiles.ofNetwork(spec.network)))
    }
    await interruptedWrites.cleanUp(spec.id, storage.clearInterruptedWrites)
    const slot = await deps.prewarmPool.take(spec.resources, processesMax, (spec.mounts ?? []).length > 0)
    const watch = createLimitWatch({
      group: slot.group,
      resources: spec.resources,
      processesMax,
      hasMemoryLimit: deps.hasMemoryLimits,
      memoryFile: join(deps.mountedFiles, `${spec.id}.meminfo`),
      log: logs.of(spec.id),
      killProcesses: async () => initProcess && killProcesses(slot.group, initProcess.initPid),
    })
    let initProcess: InitProcess | undefined
    try {
      initProcess = await startInitProcess(slot, async () => ({
        hostname: spec.hostname,
        root: await storage.mountRoot(spec, image.root, slot.range.view),
        binds: image.binds,
        mounts: (spec.mounts ?? []).map(deps.hostMount),
        files: watch.memoryFile === undefined ? [] : [{ source: watch.memoryFile, target: '/proc/meminfo' }],
      }))
      const entry: Omit<Entry, 'processors'> = {
        namespacePid: initProcess.initPid,
        capabilities: hasIds ? PACKAGE_CAPABILITIES : 0n,
        // The rlimit is higher than the cgroup's limit, so that the cgroup refuses first: only the cgroup counts what it refused.
        processesMax: deps.hasProcessGroups ? 2 * processesMax : processesMax,
        filesMax: FILES_MAX,
        seccompFilter: deps.seccompFilter,
        cgroups: slot.group.joinPaths,
      }
      let processors = deps.processorsFor(spec.resources.vcpus)
      const gate = createEntryGate()
      const run = async (command: Command): Promise<WatchedCommand> => {
        const end = watch.begin()
        try {
          const enter = () => gate.enter(() => runInWorkspace(deps, { ...entry, processors }, command))
          const running = await whenProcessesEnd(deps.clock, watch, enter)
          return { ...running, ended: running.ended.then((how) => ({ ...how, limitsHit: end() })) }
        } catch (error) {
          end()
          throw error
        }
      }
      const jobs = await openJobs({ directory: join(jobFolder, spec.id), run, clock: deps.clock })
      const resize = (resources: Resources): void => {
        slot.group.limit(resources, resources.processes ?? PROCESSES_MAX)
        watch.resize(resources)
        processors = deps.processorsFor(resources.vcpus)
        logs.of(spec.id).note(`resized to ${resourcesText(resources, deps)}`)
      }
      return { spec, initProcess, slot, jobs, gate, watch, run, resize }
    } catch (error) {
      await initProcess?.stop(0)
      watch.close()
      await storage.unmountRoot(spec.id)
      await slot.release()
      throw error
    }
  }

  const cleanups = new Map<string, Promise<void>>()
  async function cleanUp({ spec: { id, ip }, slot, watch }: Live): Promise<void> {
    live.delete(id)
    watch.close()
    logs.of(id).note('ended')
    deps.egress.forget(ip)
    await deps.network.detach(id).catch((error: unknown) => deps.logger.warn('network detach failed', { id, error }))
    await storage.unmountRoot(id).catch((error: unknown) => deps.logger.warn('unmount failed', { id, error }))
    await slot.release()
    cleanups.delete(id)
  }

  async function stop(id: string, graceMs: number): Promise<void> {
    const found = live.get(id)
    const cleaned = cleanups.get(id)
    if (found !== undefined) await found.initProcess.stop(graceMs)
    await cleaned
  }

  async function snapshot(id: string, layerId: string): Promise<{ bytes: number }> {
    const found = live.get(id)
    if ((await storage.layers()).includes(layerId)) return { bytes: await storage.layerBytes(layerId) }
    if (found === undefined) await storage.copyToLayer(id, layerId, shares.of(id))
    else await found.gate.whileClosed(() => copyFrozen(found, layerId))
    return { bytes: await storage.layerBytes(layerId) }
  }

  async function copyFrozen({ spec, slot, initProcess }: Live, layerId: string): Promise<void> {
    const thaw = await freezeProcesses(slot.group, initProcess.initPid)
    try {
      await storage.copyToLayer(spec.id, layerId, shares.of(spec.id))
    } finally {
      await thaw()
    }
  }

  /** The jobs of a workspace that does not run. Their output can be read, but no job can start. */
  async function retainedJobs(id: string): Promise<Jobs> {
    const found = live.get(id)
    if (found !== undefined) return found.jobs
    if (!(await storage.stored()).includes(id)) throw notRunning(id)
    const run = (): Promise<never> => Promise.reject(notRunning(id))
    return await openJobs({ directory: join(jobFolder, id), run, clock: deps.clock })
  }

  /** The ids of all workspaces of which anything is stored. A crash may have left other records without the disk. */
  async function knownIds(): Promise<readonly string[]> {
    const found = await Promise.all([
      storage.stored(),
      readdir(jobFolder),
      logs.workspaceIds(),
      interruptedWrites.workspaceIds(),
      addresses.workspaceIds(),
      imageUses.workspaceIds(),
      shares.workspaceIds(),
    ])
    return [...new Set(found.flat())]
  }

  const files = (id: string, within?: readonly (readonly string[])[]): WorkspaceFiles =>
    interruptedWrites.tracking(
      id,
      createOpenatFiles({
        openRoot: async () => openRoot(requireLive(id)),
        owner: live.get(id)?.slot.range.owner,
        within,
        random: deps.random,
      }),
    )
  async function writeNetworkFiles(id: string): Promise<void> {
    const network = live.get(id)?.spec.network
    if (network === undefined) return
    await putNetworkFiles(id, async () => {
      for (const { path, text } of injectedFiles.ofNetwork(network)) await files(id).write(path, Buffer.from(text))
    })
  }

  return {
    files,
    jobs: (id: string): Jobs => requireLive(id).jobs,
    retainedJobs,
    run: async (id: string, command: Command): Promise<WatchedCommand> => await requireLive(id).run(command),
    /** Takes the lock, so the answer includes every change that was requested before. */
    isRunning: (id: string) => withLock(id, async () => live.has(id)),
    create: (spec: Omit<WorkspaceSpec, 'ip'>) => withLock(spec.id, () => create(spec)),
    start: (spec: WorkspaceSpec) => withLock(spec.id, () => start(spec)),
    stop: (id: string, graceMs: number) => withLock(id, () => stop(id, graceMs)),
    destroy: (id: string) =>
      withLock(id, async () => {
        await stop(id, 0)
        await storage.destroy(id)
        interruptedWrites.forget(id)
        await Promise.all([
          rm(join(jobFolder, id), { recursive: true, force: true }),
          logs.remove(id),
          addresses.release(id),
          imageUses.release(id),
          shares.release(id),
        ])
      }),
    removeImage: (name: string, signal: AbortSignal) =>
      imageUses.whileUnused(name, () => deps.images.remove(name, signal)),
    // Locks the layer too, so that a removal waits until the layer is complete.
    snapshot: (id: string, layerId: string) => withLock(id, () => withLock(layerId, () => snapshot(id, layerId))),
    removeLayer: (layerId: string) => withLock(layerId, () => storage.removeLayer(layerId)),
    reset: (spec: WorkspaceSpec) =>
      withLock(spec.id, async () => {
        await stop(spec.id, 0)
        await storage.reset(spec.id, await boundsOf(shares, spec), injectedFiles.ofWorkspace(spec))
        untouched.add(spec.id)
      }),
    setNetwork: (id: string, network: NetworkSpec) =>
      withLock(id, async () => {
        const found = live.get(id)
        if (found === undefined) return
        const { ip, network: before } = found.spec
        await applyNetwork(deps, { id, ip, pid: found.initProcess.initPid, before }, network)
        live.set(id, { ...found, spec: { ...found.spec, network } })
        await writeNetworkFiles(id)
      }),
    resize: (id: string, resources: Resources) =>
      withLock(id, async () => {
        if (storage.has(id)) await storage.resize(id, diskBytes({ resources }))
        resizeLive(live, id, resources)
      }),
    /** To be called after the operator's authorities have changed, which running workspaces trust as well. */
    refreshNetworkFiles: () => Promise.all([...live.keys()].map((id) => withLock(id, () => writeNetworkFiles(id)))),
    async inventory(): Promise<BackendInventory> {
      return { running: [...live.keys()], stored: await knownIds(), layers: await storage.layers() }
    },
    async usage(id: string): Promise<WorkspaceUsage> {
      const found = live.get(id)
      return {
        diskUsedBytes: await storage.usedBytes(id),
        diskLimitBytes:
          found === undefined ? null : deps.hasDiskLimits ? found.spec.resources.diskGb * 1024 ** 3 : null,
        memoryUsedBytes: found === undefined ? null : await found.slot.group.memoryUsedBytes(),
        cpuThrottledCount: found === undefined ? null : await found.slot.group.cpuThrottledCount(),
        memoryKills: found === undefined ? null : found.watch.hits().memory,
        processRefusals: found === undefined ? null : found.watch.hits().processes,
        processCount: found === undefined ? 0 : commandsOf(found.initProcess.initPid).length,
      }
    },
    refused: (id: string) => deps.egress.refused(live.get(id)?.spec.ip ?? ''),
    log(id: string, lines: number) {
      live.get(id)?.watch.hits()
      return logs.read(id, lines)
    },
    runningCount: () => live.size,
  }
}

const openRoot = ({ initProcess: { initPid } }: Live) => open(`/proc/${initPid}/root`, O_PATH | constants.O_DIRECTORY)

function resizeLive(live: Map<string, Live>, id: string, resources: Resources): void {
  const found = live.get(id)
  if (found === undefined) return
  found.resize(resources)
  live.set(id, { ...found, spec: { ...found.spec, resources } })
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const notRunning = (id: string): AppError =>
  new AppError('ERR_WORKSPACE_STATE', 'The workspace is not running. Start it with workspace_start.', { id })
