import { closeSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import type { LimitName, Resources } from '../domains/workspaces/backend.ts'
import type { ControlGroup, LimitHits } from './cgroups.ts'
import type { WorkspaceLog } from './workspace-logs.ts'

/** What a running workspace is told of its limits, and what its log is told of them. */
export type LimitWatch = Readonly<{
  /** Its /proc/meminfo; nothing where memory is not limited. */
  memoryFile: string | undefined
  hits(): LimitHits
  /** From now to when the answer is called: which limits have stopped something in the workspace. */
  begin(): () => readonly LimitName[]
  /** After the limits have changed. */
  resize(resources: Resources): void
  close(): void
}>

type LimitWatchDeps = Readonly<{
  group: ControlGroup
  resources: Resources
  processesMax: number
  /** Whether memory is limited at all. */
  hasMemoryLimit: boolean
  memoryFile: string
  log: WorkspaceLog
  /** Kills every process that a command of the workspace has started. */
  killProcesses(): Promise<void>
}>

const REFRESH_MS = 1_000
/** A program that lacks processes gives up long before; what is refused this often between two refreshes is a fork bomb. */
const BOMB_REFUSALS = 1_000

/**
 * Memory use is told anew while commands run; the kernel shows a workspace only the whole machine's. A fork bomb is ended,
 * because its attempts alone, each of which the kernel refuses, keep the machine from everybody else.
 */
export function createLimitWatch(deps: LimitWatchDeps): LimitWatch {
  const { group, log } = deps
  let { resources } = deps
  const memoryFile = deps.hasMemoryLimit ? deps.memoryFile : undefined
  const limitBytes = (): number => resources.memoryMb * 1024 * 1024
  let told: LimitHits = group.hits()
  let underWay = 0
  let timer: NodeJS.Timeout | undefined
  /** How many processes there are without any command. */
  let idleCount = 0
  if (memoryFile !== undefined) writeFileSync(memoryFile, memoryText(limitBytes(), 0), { mode: 0o644 })

  async function refresh(): Promise<void> {
    const refusedBefore = told.processes
    const refused = tell().processes - refusedBefore
    if (refused >= BOMB_REFUSALS) {
      log.error('processes: a fork bomb; everything that runs in the workspace is killed')
      await deps.killProcesses()
    } else if (underWay === 0 && group.processCount() <= idleCount) {
      clearInterval(timer)
      timer = undefined
    }
    if (memoryFile === undefined) return
    const used = (await group.memoryUsedBytes()) ?? 0
    // In place and of one length: a process that reads meanwhile reads a whole one.
    const fd = openSync(memoryFile, 'r+')
    writeSync(fd, memoryText(limitBytes(), used), 0)
    closeSync(fd)
  }
  const soon = (): void => void refresh().catch(() => {})

  /** Into the log, once. */
  function tell(): LimitHits {
    const now = group.hits()
    const memory = now.memory - told.memory
    const processes = now.processes - told.processes
    told = now
    if (memory > 0) {
      log.error(`memory: the kernel killed ${memory} of its processes at the limit of ${resources.memoryMb} MiB`)
    }
    if (processes > 0) log.error(`processes: ${processes} could not start at the limit of ${deps.processesMax}`)
    return now
  }
  return {
    memoryFile,
    hits: tell,
    begin() {
      const before = tell()
      if (timer === undefined) {
        idleCount = group.processCount()
        timer = setInterval(soon, REFRESH_MS)
      }
      underWay += 1
      soon()
      return () => {
        underWay -= 1
        if (underWay === 0) soon()
        const after = tell()
        return (['memory', 'processes'] as const).filter((name) => after[name] > before[name])
      }
    },
    resize(changed) {
      resources = changed
      soon()
    },
    close() {
      clearInterval(timer)
      tell()
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
