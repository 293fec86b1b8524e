import { constants } from 'node:fs'
import { mkdir, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'
import {
  type BackendInventory,
  egressPlace,
  type NetworkSpec,
  type WorkspaceFiles,
  type WorkspaceSpec,
  type WorkspaceUsage,
} from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import { createAddresses } from './addresses.ts'
import type { ControlGroup, ControlGroups } from './cgroups.ts'
import type { EgressDesk } from './egress-desk.ts'
import type { Fifos } from './fifos.ts'
import { freezeProcesses } from './freeze.ts'
import { commandsOf, type Holder, startHolder } from './holder.ts'
import { createImageUses } from './image-uses.ts'
import type { Images } from './images/index.ts'
import { type Jobs, openJobs } from './jobs.ts'
import type { Launcher } from './launcher.ts'
import { type NetworkHub, resolverText } from './network/index.ts'
import { createRootedFiles } from './rooted-files/index.ts'
import { type Command, type Entry, type RunningCommand, runInWorkspace } from './run-in-workspace.ts'
import type { OwnFile, Storage } from './storage.ts'

export type RegistryDeps = Readonly<{
  root: string
  launcher: Launcher
  fifos: Fifos
  storage: Storage
  controlGroups: ControlGroups
  images: Images
  network: NetworkHub
  egress: EgressDesk
  /** User ids that the supervisor's own namespace has. */
  ids: number
  seccompFilter: string
  /** The store refuses to grow beyond a workspace's quota. */
  hasDiskLimits: boolean
  clock: Clock
  random: Random
  logger: Logger
}>

type Live = Readonly<{ spec: WorkspaceSpec; holder: Holder; group: ControlGroup; jobs: Jobs; entry: Entry }>

/** What a workspace with several user ids needs to install packages: CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID. */
const PACKAGE_CAPABILITIES = 0b1100_1011n
const PROCESSES_MAX = 2_048
const FILES_MAX = 65_536
const SHARED_MEMORY_MB = 64
const O_PATH = 0o10000000

const diskBytes = ({ resources }: Pick<WorkspaceSpec, 'resources'>): number => Math.round(resources.diskGb * 1024 ** 3)

export type Registry = Awaited<ReturnType<typeof createRegistry>>

/** All workspaces of the supervisor: what is stored, and what runs. */
export async function createRegistry(deps: RegistryDeps) {
  const { root, storage } = deps
  const logs = join(root, 'logs')
  const jobFolder = join(root, 'jobs')
  for (const folder of [logs, jobFolder]) await mkdir(folder, { recursive: true })
  const addresses = await createAddresses(join(root, 'addresses'))
  const imageUses = await createImageUses(join(root, 'image-uses'))
  const live = new Map<string, Live>()
  /** Made here, and nothing has run in it yet. */
  const untouched = new Set<string>()
  const turns = new Map<string, Promise<unknown>>()

  /** One change to a workspace at a time. */
  function inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const turn = (turns.get(id) ?? Promise.resolve()).then(work, work)
    const settled = turn.catch(() => {})
    turns.set(id, settled)
    void settled.then(() => turns.get(id) === settled && turns.delete(id))
    return turn
  }

  function requireLive(id: string): Live {
    const found = live.get(id)
    if (found === undefined) {
      throw new AppError('ERR_WORKSPACE_STATE', 'The workspace is not running. Start it with workspace_start.', { id })
    }
    return found
  }

  /** What a copy of another workspace must not share with it, and its network. */
  const ownFiles = (spec: WorkspaceSpec): OwnFile[] => [
    { path: '/etc/hostname', text: `${spec.hostname}\n` },
    { path: '/etc/hosts', text: `127.0.0.1 localhost\n::1 localhost\n${spec.ip} ${spec.hostname}\n` },
    { path: '/etc/machine-id', text: `${deps.random.bytes(16).toString('hex')}\n` },
    ...networkFiles(spec.network),
  ]
  /** How a workspace finds names, and whom it trusts when the proxy opens its connections. */
  const networkFiles = (network: NetworkSpec): OwnFile[] => [
    { path: '/etc/resolv.conf', text: resolverText(network) },
    ...(network.allowedDomains.length > 0
      ? [{ path: egressPlace.authoritiesPath, text: deps.egress.trustedAuthorities() }]
      : []),
  ]
  /** What a workload has made of its own `/etc` must not decide whether a policy takes effect or a workspace starts. */
  async function putNetworkFiles(id: string, put: () => Promise<unknown>): Promise<void> {
    await put().catch((error: unknown) =>
      deps.logger.warn('a workspace was not told of its network', { id, error: String(error) }),
    )
  }

  async function create(spec: Omit<WorkspaceSpec, 'ip'>): Promise<{ ip: string }> {
    await imageUses.take(spec.id, spec.image)
    const ip = await addresses.take(spec.id)
    if (!storage.has(spec.id)) {
      await storage.create(spec.id, diskBytes(spec), ownFiles({ ...spec, ip }))
      untouched.add(spec.id)
    }
    return { ip }
  }

  async function start(spec: WorkspaceSpec): Promise<void> {
    if (live.has(spec.id)) return
    await imageUses.take(spec.id, spec.image)
    const image = await deps.images.find(spec.image)
    const processesMax = spec.resources.processes ?? PROCESSES_MAX
    if (!untouched.delete(spec.id)) {
      await putNetworkFiles(spec.id, () => storage.writeFiles(spec.id, networkFiles(spec.network)))
    }
    const [rootPath, group] = await Promise.all([
      storage.mountRoot(spec, image.root),
      deps.controlGroups.open(spec.id, spec.resources, processesMax),
    ])
    const hasPackages = image.packages && deps.ids > 1
    let holder: Holder
    try {
      holder = await startHolder(deps.launcher, {
        hostname: spec.hostname,
        root: rootPath,
        binds: image.binds,
        seccompFilter: deps.seccompFilter,
        hasIds: hasPackages,
        sharedMemoryMb: SHARED_MEMORY_MB,
        logPath: join(logs, `${spec.id}.log`),
      })
    } catch (error) {
      await Promise.all([storage.unmountRoot(spec.id), group.close()])
      throw error
    }
    const entry: Entry = {
      namespacePid: holder.initPid,
      capabilities: hasPackages ? PACKAGE_CAPABILITIES : 0n,
      processesMax,
      filesMax: FILES_MAX,
      seccompFilter: deps.seccompFilter,
      cgroups: group.joinPaths,
    }
    const run = (command: Command): Promise<RunningCommand> => runInWorkspace(deps, entry, command)
    const jobs = await openJobs({ directory: join(jobFolder, spec.id), run, clock: deps.clock })
    live.set(spec.id, { spec, holder, group, jobs, entry })
    const cleaned = holder.ended.then(() => cleanUp(spec, group))
    gone.set(spec.id, cleaned)
    deps.egress.set(spec.ip, spec.network)
    try {
      await deps.network.attach({ id: spec.id, pid: holder.initPid, ip: spec.ip }, spec.network)
    } catch (error) {
      await holder.stop(0)
      await cleaned
      throw error
    }
  }

  const gone = new Map<string, Promise<void>>()
  async function cleanUp({ id, ip }: WorkspaceSpec, group: ControlGroup): Promise<void> {
    live.delete(id)
    deps.egress.forget(ip)
    await deps.network.detach(id).catch((error: unknown) => deps.logger.warn('network detach failed', { id, error }))
    await storage.unmountRoot(id).catch((error: unknown) => deps.logger.warn('unmount failed', { id, error }))
    await group.close()
    gone.delete(id)
  }

  async function stop(id: string, graceMs: number): Promise<void> {
    const found = live.get(id)
    const cleaned = gone.get(id)
    if (found !== undefined) await found.holder.stop(graceMs)
    await cleaned
  }

  async function snapshot(id: string, layerId: string): Promise<{ bytes: number }> {
    const found = live.get(id)
    if ((await storage.layers()).includes(layerId)) return { bytes: await storage.layerBytes(layerId) }
    const thaw = found === undefined ? undefined : await freezeProcesses(found.group, found.holder.initPid)
    try {
      await storage.copyToLayer(id, layerId)
    } finally {
      await thaw?.()
    }
    return { bytes: await storage.layerBytes(layerId) }
  }

  const openRoot = (id: string) => {
    const { initPid } = requireLive(id).holder
    return open(`/proc/${initPid}/root`, O_PATH | constants.O_DIRECTORY)
  }
  const files = (id: string): WorkspaceFiles =>
    createRootedFiles({ openRoot: () => openRoot(id), owner: { uid: 0, gid: 0 }, random: deps.random })
  async function writeNetworkFiles(id: string): Promise<void> {
    const network = live.get(id)?.spec.network
    if (network === undefined) return
    await putNetworkFiles(id, async () => {
      for (const { path, text } of networkFiles(network)) await files(id).write(path, Buffer.from(text))
    })
  }

  return {
    files,
    jobs: (id: string): Jobs => requireLive(id).jobs,
    run: (id: string, command: Command): Promise<RunningCommand> =>
      runInWorkspace(deps, requireLive(id).entry, command),
    create: (spec: Omit<WorkspaceSpec, 'ip'>) => inTurn(spec.id, () => create(spec)),
    start: (spec: WorkspaceSpec) => inTurn(spec.id, () => start(spec)),
    stop: (id: string, graceMs: number) => inTurn(id, () => stop(id, graceMs)),
    destroy: (id: string) =>
      inTurn(id, async () => {
        await stop(id, 0)
        await storage.destroy(id)
        await Promise.all([
          rm(join(jobFolder, id), { recursive: true, force: true }),
          rm(join(logs, `${id}.log`), { force: true }),
          addresses.release(id),
          imageUses.release(id),
        ])
      }),
    removeImage: (name: string, signal: AbortSignal) =>
      imageUses.whileUnused(name, () => deps.images.remove(name, signal)),
    snapshot: (id: string, layerId: string) => inTurn(id, () => snapshot(id, layerId)),
    removeLayer: storage.removeLayer,
    reset: (spec: WorkspaceSpec) =>
      inTurn(spec.id, async () => {
        await stop(spec.id, 0)
        await storage.reset(spec.id, diskBytes(spec), ownFiles(spec))
        untouched.add(spec.id)
      }),
    async setNetwork(id: string, network: NetworkSpec): Promise<void> {
      await inTurn(id, async () => {
        const found = live.get(id)
        if (found === undefined) return
        await deps.network.update(id, network)
        deps.egress.set(found.spec.ip, network)
        live.set(id, { ...found, spec: { ...found.spec, network } })
        await writeNetworkFiles(id)
      })
    },
    /** After the operator's authorities have changed, which running workspaces trust as well. */
    async refreshNetworkFiles(): Promise<void> {
      await Promise.all([...live.keys()].map((id) => inTurn(id, () => writeNetworkFiles(id))))
    },
    async inventory(): Promise<BackendInventory> {
      return { running: [...live.keys()], stored: await storage.stored(), layers: await storage.layers() }
    },
    async usage(id: string): Promise<WorkspaceUsage> {
      const found = live.get(id)
      return {
        diskUsedBytes: await storage.usedBytes(id),
        diskLimitBytes:
          found === undefined ? null : deps.hasDiskLimits ? found.spec.resources.diskGb * 1024 ** 3 : null,
        memoryUsedBytes: found === undefined ? null : await found.group.memoryUsedBytes(),
        cpuThrottledCount: found === undefined ? null : await found.group.cpuThrottledCount(),
        processCount: found === undefined ? 0 : commandsOf(found.holder.initPid).length,
      }
    },
    async log(id: string): Promise<string> {
      return await readFile(join(logs, `${id}.log`), 'utf8').catch(() => '')
    },
    runningCount: () => live.size,
    async stopAll(): Promise<void> {
      await Promise.all([...live.keys()].map((id) => stop(id, 0)))
    },
  }
}
