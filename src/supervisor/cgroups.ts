import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'
import type { Resources } from '../domains/workspaces/backend.ts'
import { systemClock } from '../kernel/clock.ts'

/**
 * Control groups that limit memory, CPU and process count. launch.sh delegates one folder for each controller of cgroup v1, or
 * one for all controllers of cgroup v2. Without any, limits are not enforced, and the probe reports that.
 */
export type ControlGroups = Readonly<{
  /** Controllers on which limits can be set. */
  controllers: readonly string[]
  /** Creates a group without limits. */
  open(name: string): Promise<ControlGroup>
}>
/** Counts of processes that the OOM killer ended, and of forks that the kernel refused. */
export type LimitHits = Readonly<{ memory: number; processes: number }>
export type ControlGroup = Readonly<{
  /** The `cgroup.procs` files. A process joins by writing 0 to each. */
  joinPaths: readonly string[]
  limit(resources: Resources, processesMax: number): void
  memoryUsedBytes(): Promise<number | null>
  cpuThrottledCount(): Promise<number | null>
  /** How often each limit has been hit. */
  hits(): LimitHits
  /** Processes and threads in the group; 0 if there is no pids controller. */
  processCount(): number
  /** Refuses every fork until the returned function is called. Returns undefined if there is no pids controller. */
  refuseForks(): (() => void) | undefined
  /** Freezes every process in the group. Returns false if there is no freezer. */
  freeze(): Promise<boolean>
  thaw(): Promise<void>
  close(): Promise<void>
}>

const CPU_PERIOD_US = 100_000
const V2_CONTROLLERS = ['memory', 'cpu', 'pids', 'freezer']

export function createControlGroups(delegated: string): ControlGroups {
  const folders = new Map(
    delegated
      .split(' ')
      .filter((entry) => entry !== '')
      .map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)] as const),
  )
  const unified = folders.get('unified')
  const controllers = unified === undefined ? [...folders.keys()] : V2_CONTROLLERS
  return {
    controllers,
    open: (name) => (unified === undefined ? openVersion1(folders, name) : openVersion2(unified, name)),
  }
}

type Setting = readonly [file: string, value: string]

const version1Settings = (resources: Resources, processesMax: number): Record<string, Setting[]> => {
  const memoryBytes = String(resources.memoryMb * 1024 * 1024)
  return {
    memory: [
      ['memory.limit_in_bytes', memoryBytes],
      ['memory.memsw.limit_in_bytes', memoryBytes],
    ],
    cpu: [
      ['cpu.cfs_period_us', String(CPU_PERIOD_US)],
      ['cpu.cfs_quota_us', String(Math.round(resources.vcpus * CPU_PERIOD_US))],
    ],
    pids: [['pids.max', String(processesMax)]],
  }
}

async function openVersion1(folders: ReadonlyMap<string, string>, name: string): Promise<ControlGroup> {
  const at = new Map([...folders].map(([controller, folder]) => [controller, join(folder, name)] as const))
  await makeAll([...at.values()])
  const freezer = at.get('freezer')
  return {
    joinPaths: [...at.values()].map((folder) => join(folder, 'cgroup.procs')),
    limit(resources, processesMax) {
      const settings = version1Settings(resources, processesMax)
      // The kernel requires memory.limit <= memory.memsw.limit at every moment, so when the limit grows, memsw is raised first.
      if (isMore(at.get('memory'), 'memory.memsw.limit_in_bytes', resources)) settings['memory']?.reverse()
      for (const [controller, folder] of at) writeSettings(folder, settings[controller] ?? [])
    },
    memoryUsedBytes: () => readNumber(at.get('memory'), 'memory.usage_in_bytes'),
    cpuThrottledCount: () => readThrottled(at.get('cpu')),
    hits: () => ({
      memory: readCount(at.get('memory'), 'memory.oom_control', 'oom_kill'),
      processes: readCount(at.get('pids'), 'pids.events', 'max'),
    }),
    processCount: () => readProcessCount(at.get('pids')),
    refuseForks: () => refuseForks(at.get('pids')),
    async freeze() {
      if (freezer === undefined) return false
      const state = join(freezer, 'freezer.state')
      // The state is written on every attempt: the kernel skips a task that is about to wait for a vfork child, and freezes it
      // only on a later request.
      const isFrozen = async (): Promise<boolean> => {
        await writeFile(state, 'FROZEN')
        return (await readFile(state, 'utf8')).trim() === 'FROZEN'
      }
      await frozenOrThawed(isFrozen, () => writeFile(state, 'THAWED'))
      return true
    },
    async thaw() {
      if (freezer !== undefined) await writeFile(join(freezer, 'freezer.state'), 'THAWED')
    },
    close: () => removeAll([...at.values()]),
  }
}

async function openVersion2(parent: string, name: string): Promise<ControlGroup> {
  const folder = join(parent, name)
  await makeAll([folder])
  return {
    joinPaths: [join(folder, 'cgroup.procs')],
    limit: ({ memoryMb, vcpus }, processesMax) =>
      writeSettings(folder, [
        ['memory.max', String(memoryMb * 1024 * 1024)],
        ['memory.swap.max', '0'],
        ['memory.oom.group', '0'],
        ['cpu.max', `${Math.round(vcpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`],
        ['pids.max', String(processesMax)],
      ]),
    memoryUsedBytes: () => readNumber(folder, 'memory.current'),
    cpuThrottledCount: () => readThrottled(folder),
    hits: () => ({
      memory: readCount(folder, 'memory.events', 'oom_kill'),
      processes: readCount(folder, 'pids.events', 'max'),
    }),
    processCount: () => readProcessCount(folder),
    refuseForks: () => refuseForks(folder),
    async freeze() {
      await writeFile(join(folder, 'cgroup.freeze'), '1')
      await frozenOrThawed(
        async () => (await readFile(join(folder, 'cgroup.events'), 'utf8')).includes('frozen 1'),
        () => writeFile(join(folder, 'cgroup.freeze'), '0'),
      )
      return true
    },
    thaw: () => writeFile(join(folder, 'cgroup.freeze'), '0'),
    close: () => removeAll([folder]),
  }
}

const isMore = (folder: string | undefined, name: string, { memoryMb }: Resources): boolean =>
  folder !== undefined &&
  existsSync(join(folder, name)) &&
  Number(readFileSync(join(folder, name), 'utf8')) < memoryMb * 1024 * 1024

/** Synchronous, because cgroup files are answered by the kernel in microseconds. */
function writeSettings(folder: string, settings: readonly Setting[]): void {
  for (const [name, value] of settings) {
    if (existsSync(join(folder, name))) writeFileSync(join(folder, name), value)
  }
}

/** Creates all folders. On an error none is left behind. */
async function makeAll(folders: readonly string[]): Promise<void> {
  try {
    for (const folder of folders) mkdirSync(folder, { recursive: true })
  } catch (error) {
    await removeAll(folders)
    throw error
  }
}

/** A process in uninterruptible sleep, such as one waiting for a network file system, cannot be frozen. */
async function frozenOrThawed(isFrozen: () => Promise<boolean>, thaw: () => Promise<void>): Promise<void> {
  const deadlineMs = systemClock.monotonicMs() + FREEZE_MS_MAX
  while (!(await isFrozen())) {
    if (systemClock.monotonicMs() > deadlineMs) {
      await thaw()
      throw cannotFreeze()
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
}

export const FREEZE_MS_MAX = 10_000
export const cannotFreeze = (): AppError =>
  new AppError('ERR_BUSY', 'A process in the workspace could not be stopped; call again in a moment.', {
    retry_after_ms: 1_000,
  })

async function readNumber(folder: string | undefined, name: string): Promise<number | null> {
  if (folder === undefined) return null
  const text = await readFile(join(folder, name), 'utf8').catch(() => '')
  return text === '' ? null : Number(text)
}

function readCount(folder: string | undefined, name: string, word: string): number {
  if (folder === undefined) return 0
  try {
    return Number(new RegExp(`^${word} (\\d+)$`, 'm').exec(readFileSync(join(folder, name), 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}

function readProcessCount(folder: string | undefined): number {
  if (folder === undefined) return 0
  try {
    return Number(readFileSync(join(folder, 'pids.current'), 'utf8'))
  } catch {
    return 0
  }
}

function refuseForks(folder: string | undefined): (() => void) | undefined {
  if (folder === undefined) return undefined
  const file = join(folder, 'pids.max')
  const before = readFileSync(file, 'utf8')
  writeFileSync(file, '0')
  return () => writeFileSync(file, before)
}

async function readThrottled(folder: string | undefined): Promise<number | null> {
  if (folder === undefined) return null
  const text = await readFile(join(folder, 'cpu.stat'), 'utf8').catch(() => '')
  const found = /^nr_throttled (\d+)$/m.exec(text)
  return found === null ? null : Number(found[1])
}

/** The kernel refuses to remove a group for a moment after its last process has exited. */
async function removeAll(folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    for (let attempt = 0; attempt < 200; attempt++) {
      try {
        await rmdir(folder)
        break
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') break
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }
  }
}
