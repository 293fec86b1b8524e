import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'
import type { Resources } from '../domains/workspaces/backend.ts'
import { systemClock } from '../kernel/clock.ts'

/**
 * Control groups for memory, processor and process count, in what the start handed over: one folder for each controller
 * of version 1, or one for all of version 2. Without any, limits are not enforced and the probe says so.
 */
export type ControlGroups = Readonly<{
  /** The controllers that limits can be set on. */
  controllers: readonly string[]
  /** Without limits yet. */
  open(name: string): Promise<ControlGroup>
}>
/** Processes that the kernel ended for want of memory, and processes that it did not let begin. */
export type LimitHits = Readonly<{ memory: number; processes: number }>
export type ControlGroup = Readonly<{
  /** Files that a process joins by writing 0. */
  joinPaths: readonly string[]
  limit(resources: Resources, processesMax: number): void
  memoryUsedBytes(): Promise<number | null>
  cpuThrottledCount(): Promise<number | null>
  /** How often a limit has stopped something in it. */
  hits(): LimitHits
  /** Processes and threads in it; 0 where they are not counted. */
  processCount(): number
  /** Stops every process in it where it is; answers false when there is no freezer. */
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
      // The kernel never lets memory alone have more than memory with swap: whichever grows, grows first.
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
    async freeze() {
      if (freezer === undefined) return false
      const state = join(freezer, 'freezer.state')
      // Again each time: the kernel passes over who was about to wait for a child of vfork, and only then finds it asleep.
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

/** Without waiting in between: these files are the kernel's own, and each of them takes microseconds. */
function writeSettings(folder: string, settings: readonly Setting[]): void {
  for (const [name, value] of settings) {
    if (existsSync(join(folder, name))) writeFileSync(join(folder, name), value)
  }
}

/** All of them, or none is left behind. */
async function makeAll(folders: readonly string[]): Promise<void> {
  try {
    for (const folder of folders) mkdirSync(folder, { recursive: true })
  } catch (error) {
    await removeAll(folders)
    throw error
  }
}

/** A process that waits for the kernel, which may wait for another machine, cannot be frozen meanwhile. */
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

async function readThrottled(folder: string | undefined): Promise<number | null> {
  if (folder === undefined) return null
  const text = await readFile(join(folder, 'cpu.stat'), 'utf8').catch(() => '')
  const found = /^nr_throttled (\d+)$/m.exec(text)
  return found === null ? null : Number(found[1])
}

/** A group whose last process has just gone is busy for a moment longer. */
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
