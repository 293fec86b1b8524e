import { closeSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import type { LimitName, Resources } from '../domains/workspaces/backend.ts'
import type { ControlGroup, LimitHits } from './cgroups.ts'
import type { WorkspaceLog } from './workspace-logs.ts'

/** Reports memory use to a running workspace, and limit hits to its log. */
export type LimitWatch = Readonly<{
  /** The file that is mounted over the workspace's /proc/meminfo; undefined if memory is not limited. */
  memoryFile: string | undefined
  hits(): LimitHits
  /** Whether a fork bomb is being killed. */
  isEndingBomb(): boolean
  /** Starts to watch. The returned function returns the limits that were hit since. */
  begin(): () => readonly LimitName[]
  /** To be called after the limits have changed. */
  resize(resources: Resources): void
  close(): void
}>

type LimitWatchDeps = Readonly<{
  group: ControlGroup
  resources: Resources
  processesMax: number
  hasMemoryLimit: boolean
  memoryFile: string
  log: WorkspaceLog
  /** Kills every process of the workspace except its init process. */
  killProcesses(): Promise<void>
}>

const REFRESH_MS = 1_000
/**
 * Refused forks that count as a fork bomb, unless there was a refresh interval without any in between. A program that merely
 * reaches its limit gives up long before. On a busy machine a bomb may need several seconds for as many.
 */
const BOMB_REFUSALS = 1_000

/**
 * The memory file is rewritten while commands run, because the kernel's /proc/meminfo shows the whole machine. A fork bomb is
 * killed: its failing forks alone take CPU time from every other workspace.
 */
export function createLimitWatch(deps: LimitWatchDeps): LimitWatch {
  const { group, log } = deps
  let { resources } = deps
  const memoryFile = deps.hasMemoryLimit ? deps.memoryFile : undefined
  const limitBytes = (): number => resources.memoryMb * 1024 * 1024
  let logged: LimitHits = group.hits()
  let underWay = 0
  let timer: NodeJS.Timeout | undefined
  /** The number of processes while no command runs. */
  let idleCount = 0
  let endingBomb = false
  let refusedLast = logged.processes
  let refusedWhenQuiet = logged.processes
  if (memoryFile !== undefined) writeFileSync(memoryFile, memoryText(limitBytes(), 0), { mode: 0o644 })

  /** Once per refresh interval. */
  async function endBomb(): Promise<void> {
    // A second kill would hit commands that started after the first.
    if (endingBomb) return
    const refused = logHits().processes
    if (refused === refusedLast) refusedWhenQuiet = refused
    refusedLast = refused
    if (refused - refusedWhenQuiet < BOMB_REFUSALS) return
    endingBomb = true
    await deps.killProcesses().finally(() => {
      refusedWhenQuiet = logHits().processes
      endingBomb = false
    })
    log.error('processes: fork bomb; all processes of the workspace were killed')
  }

  async function refresh(): Promise<void> {
    logHits()
    if (underWay === 0 && group.processCount() <= idleCount) {
      clearInterval(timer)
      timer = undefined
    }
    if (memoryFile === undefined) return
    const used = (await group.memoryUsedBytes()) ?? 0
    // Overwritten in place with text of the same length, so a concurrent reader never sees half of it.
    const fd = openSync(memoryFile, 'r+')
    writeSync(fd, memoryText(limitBytes(), used), 0)
    closeSync(fd)
  }
  const soon = (): void => void refresh().catch(() => {})
  const tick = (): void => {
    void endBomb().catch(() => {})
    soon()
  }

  /** Logs the hits since the last call. */
  function logHits(): LimitHits {
    const now = group.hits()
    const memory = now.memory - logged.memory
    const processes = now.processes - logged.processes
    logged = now
    if (memory > 0) {
      log.error(`memory: the kernel killed ${memory} of its processes at the limit of ${resources.memoryMb} MiB`)
    }
    if (processes > 0) log.error(`processes: ${processes} could not start at the limit of ${deps.processesMax}`)
    return now
  }
  return {
    memoryFile,
    hits: () => group.hits(),
    isEndingBomb: () => endingBomb,
    begin() {
      const before = logHits()
      if (timer === undefined) {
        idleCount = group.processCount()
        timer = setInterval(tick, REFRESH_MS)
      }
      underWay += 1
      soon()
      return () => {
        underWay -= 1
        if (underWay === 0) soon()
        const after = logHits()
        return (['memory', 'processes'] as const).filter((name) => after[name] > before[name])
      }
    },
    resize(changed) {
      resources = changed
      soon()
    },
    close() {
      clearInterval(timer)
      logHits()
      if (memoryFile !== undefined) rmSync(memoryFile, { force: true })
    },
  }
}

function memoryText(limitBytes: number, usedBytes: number): string {
  const free = Math.max(0, limitBytes - usedBytes)
  const rows: readonly (readonly [string, number])[] = [
    ['MemTotal', limitBytes],
    ['MemFree', free],
    ['MemAvailable', free],
    ['Buffers', 0],
    ['Cached', 0],
    ['SwapCached', 0],
    ['Active', Math.min(usedBytes, limitBytes)],
    ['Inactive', 0],
    ['SwapTotal', 0],
    ['SwapFree', 0],
    ['Dirty', 0],
    ['Writeback', 0],
    ['AnonPages', Math.min(usedBytes, limitBytes)],
    ['Mapped', 0],
    ['Shmem', 0],
    ['Slab', 0],
    ['SReclaimable', 0],
    ['SUnreclaim', 0],
  ]
  return rows
    .map(([name, bytes]) => `${`${name}:`.padEnd(16)}${String(Math.floor(bytes / 1024)).padStart(12)} kB\n`)
    .join('')
}
