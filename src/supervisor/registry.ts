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
import { openCutWrites } from './cut-writes.ts'
import type { EgressBroker } from './egress-broker.ts'
import { createEntryGate, type EntryGate } from './entry-gate.ts'
import type { Fifos } from './fifos.ts'
import { freezeProcesses, killProcesses } from './freeze.ts'
import { hostMount } from './host-mounts.ts'
import { createImageUses } from './image-uses.ts'
import type { Images } from './images/index.ts'
import { commandsOf, type InitProcess, startInitProcess } from './init-process.ts'
import { type Jobs, openJobs } from './jobs.ts'
import type { Launcher } from './launcher.ts'
import { createLimitWatch, type LimitWatch } from './limit-watch.ts'
import type { NetworkHub } from './network/index.ts'
import { createOpenatFiles } from './openat-files/index.ts'
import { createOwnFiles } from './own-files.ts'
import type { CommandEnd } from './perl-process.ts'
import type { PrewarmedSlot, PrewarmPool } from './prewarm-pool.ts'
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
  /** User ids that the supervisor's own namespace has. */
  ids: number
  seccompFilter: string
  /** The store refuses to grow beyond a workspace's quota. */
  hasDiskLimits: boolean
  hasMemoryLimits: boolean
  hasProcessGroups: boolean
  /** A folder for files that workspaces are shown, which the ids of every workspace can reach. */
  displayedFiles: string
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
  /** Commands that begin from now on find the processors. */
  resize(resources: Resources): void
}>

const PROCESSES_MAX = 1_024
const FILES_MAX = 65_536
const O_PATH = 0o10000000

const diskBytes = ({ resources }: Pick<WorkspaceSpec, 'resources'>): number => Math.round(resources.diskGb * 1024 ** 3)

/** For a workspace that is made, or made anew. */
const boundsOf = async (
  shares: TenantShares,
  spec: Pick<WorkspaceSpec, 'id' | 'resources' | 'network'>,
): Promise<DiskBounds> => ({ bytesMax: diskBytes(spec), group: await shares.take(spec.id, spec.network.tenant) })

/** With the limits that have stopped something in the workspace while it ran. */
type WatchedCommand = Omit<RunningCommand, 'ended'> & Readonly<{ ended: Promise<WatchedEnd> }>
type WatchedEnd = CommandEnd & Readonly<{ limitsHit: readonly LimitName[] }>

/** What is kept beside the disks of workspaces. */
async function openNotes({ root, clock }: Pick<RegistryDeps, 'root' | 'clock'>) {
  const jobFolder = join(root, 'jobs')
  await mkdir(jobFolder, { recursive: true })
  const cutWrites = await openCutWrites(join(root, 'writes'))
  return { jobFolder, cutWrites, logs: await openWorkspaceLogs(join(root, 'logs'), clock) }
}

export type Registry = Awaited<ReturnType<typeof createRegistry>>

/** All workspaces of the supervisor: what is stored, and what runs. */
export async function createRegistry(deps: RegistryDeps) {
  const { root, storage } = deps
  const { jobFolder, cutWrites, logs } = await openNotes(deps)
  const addresses = await createAddresses(join(root, 'addresses'))
  const imageUses = await createImageUses(join(root, 'image-uses'))
  const shares = await createTenantShares(join(root, 'shares'))
  const ownFiles = createOwnFiles(deps)
  const live = new Map<string, Live>()
  /** Made here, and nothing has run in it yet. */
  const untouched = new Set<string>()
  /** One change to a workspace at a time. */
  const { withLock } = createKeyedMutex()
  function requireLive(id: string): Live {
    const found = live.get(id)
    if (found === undefined) throw notRunning(id)
    return found
  }

  /** What a workload has made of its own `/etc` must not decide whether a policy takes effect or a workspace starts. */
  async function putNetworkFiles(id: string, put: () => Promise<unknown>): Promise<void> {
    await put().catch((error: unknown) =>
      deps.logger.warn('a workspace did not get its network settings', { id, error: String(error) }),
    )
  }

  async function create(spec: Omit<WorkspaceSpec, 'ip'>): Promise<{ ip: string }> {
    deps.prewarmPool.restock()
    await imageUses.take(spec.id, spec.image)
    const ip = await addresses.take(spec.id)
    if (!storage.has(spec.id)) {
      await storage.create(spec.id, await boundsOf(shares, spec), ownFiles.ofWorkspace({ ...spec, ip }))
      untouched.add(spec.id)
    }
    return { ip }
  }

  async function start(spec: WorkspaceSpec): Promise<void> {
    if (live.has(spec.id)) return
    // One that ended by itself may still be on its way out.
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

  /** Everything of a running workspace but its network; all of it, or nothing. */
  async function hold(spec: WorkspaceSpec): Promise<Live> {
    await imageUses.take(spec.id, spec.image)
    const image = await deps.images.find(spec.image)
    const processesMax = spec.resources.processes ?? PROCESSES_MAX
    const hasIds = deps.ids > 1
    if (!untouched.delete(spec.id)) {
      await putNetworkFiles(spec.id, () => storage.writeFiles(spec.id, ownFiles.ofNetwork(spec.network)))
    }
    await cutWrites.clearUp(spec.id, storage.clearCutWrites)
    const slot = await deps.prewarmPool.take(spec.resources, processesMax, (spec.mounts ?? []).length > 0)
    const watch = createLimitWatch({
      group: slot.group,
      resources: spec.resources,
      processesMax,
      hasMemoryLimit: deps.hasMemoryLimits,
      memoryFile: join(deps.displayedFiles, `${spec.id}.meminfo`),
      log: logs.of(spec.id),
      killProcesses: async () => initProcess && killProcesses(slot.group, initProcess.initPid),
    })
    let initProcess: InitProcess | undefined
    try {
      initProcess = await startInitProcess(slot, async () => ({
        hostname: spec.hostname,
        root: await storage.mountRoot(spec, image.root, slot.range.view),
        binds: image.binds,
        mounts: (spec.mounts ?? []).map(hostMount),
        files: watch.memoryFile === undefined ? [] : [{ source: watch.memoryFile, target: '/proc/meminfo' }],
      }))
      const entry: Omit<Entry, 'processors'> = {
        namespacePid: initProcess.initPid,
        capabilities: hasIds ? PACKAGE_CAPABILITIES : 0n,
        // The control group is to refuse first, because it counts what it refused.
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
          const running = await gate.enter(() => runInWorkspace(deps, { ...entry, processors }, command))
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

  /** Jobs of a workspace that does not run: what they printed is still there, and nothing can be started. */
  async function retainedJobs(id: string): Promise<Jobs> {
    const found = live.get(id)
    if (found !== undefined) return found.jobs
    if (!(await storage.stored()).includes(id)) throw notRunning(id)
    const run = (): Promise<never> => Promise.reject(notRunning(id))
    return await openJobs({ directory: join(jobFolder, id), run, clock: deps.clock })
  }

  /** Every workspace of which anything at all is kept: a crash may have left less than its storage. */
  async function traces(): Promise<readonly string[]> {
    const found = await Promise.all([
      storage.stored(),
      readdir(jobFolder),
      logs.initProcesses(),
      cutWrites.initProcesses(),
      addresses.initProcesses(),
      imageUses.initProcesses(),
      shares.initProcesses(),
    ])
    return [...new Set(found.flat())]
  }

  const files = (id: string, within?: readonly (readonly string[])[]): WorkspaceFiles =>
    cutWrites.noting(
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
      for (const { path, text } of ownFiles.ofNetwork(network)) await files(id).write(path, Buffer.from(text))
    })
  }

  return {
    files,
    jobs: (id: string): Jobs => requireLive(id).jobs,
    retainedJobs,
    run: async (id: string, command: Command): Promise<WatchedCommand> => await requireLive(id).run(command),
    /** After everything that was asked for it before, by whomever. */
    isRunning: (id: string) => withLock(id, async () => live.has(id)),
    create: (spec: Omit<WorkspaceSpec, 'ip'>) => withLock(spec.id, () => create(spec)),
    start: (spec: WorkspaceSpec) => withLock(spec.id, () => start(spec)),
    stop: (id: string, graceMs: number) => withLock(id, () => stop(id, graceMs)),
    destroy: (id: string) =>
      withLock(id, async () => {
        await stop(id, 0)
        await storage.destroy(id)
        cutWrites.forget(id)
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
    // A layer that is being made is removed when it is there.
    snapshot: (id: string, layerId: string) => withLock(id, () => withLock(layerId, () => snapshot(id, layerId))),
    removeLayer: (layerId: string) => withLock(layerId, () => storage.removeLayer(layerId)),
    reset: (spec: WorkspaceSpec) =>
      withLock(spec.id, async () => {
        await stop(spec.id, 0)
        await storage.reset(spec.id, await boundsOf(shares, spec), ownFiles.ofWorkspace(spec))
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
    /** After the operator's authorities have changed, which running workspaces trust as well. */
    refreshNetworkFiles: () => Promise.all([...live.keys()].map((id) => withLock(id, () => writeNetworkFiles(id)))),
    async inventory(): Promise<BackendInventory> {
      return { running: [...live.keys()], stored: await traces(), layers: await storage.layers() }
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
