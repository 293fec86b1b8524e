import type { Clock } from '../kernel/clock.ts'
import type { Run } from './ports.ts'

type Sleeper = Readonly<{ run: Pick<Run, 'tenant' | 'id'>; wakeAtMs: number }>

export type ScheduleDeps = Readonly<{
  clock: Clock
  concurrentMax: number
  /** Settles when the run needs no place any more. `onIdle` tells whether it only waits for what runs below it. */
  begin(run: Run, onIdle: (isIdle: boolean) => void): Promise<void>
  due(run: Pick<Run, 'tenant' | 'id'>): Promise<void>
}>

const TIMER_MS_MAX = 2 ** 31 - 1
const RETRY_MS = 200

/** Which runs are at work, which wait for a place, and which for a time. One timer serves all that wait for one. */
export function createSchedule({ clock, concurrentMax, begin, due }: ScheduleDeps) {
  const queue = new Map<string, Run>()
  const working = new Map<string, Promise<void>>()
  /** Members at work of each tree of runs. */
  const trees = new Map<string, number>()
  const sleepers = new Map<string, Sleeper>()
  const again = new Map<string, Run>()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  function count(rootId: string, by: 1 | -1): void {
    const members = (trees.get(rootId) ?? 0) + by
    if (members > 0) trees.set(rootId, members)
    else trees.delete(rootId)
  }

  function pump(): void {
    for (const run of queue.values()) {
      if (isClosed) return
      if (!trees.has(run.rootId) && run.depth === 0 && trees.size >= concurrentMax) continue
      queue.delete(run.id)
      start(run)
    }
  }

  function start(run: Run): void {
    let isIdle = false
    const setIdle = (next: boolean): void => {
      if (next === isIdle) return
      isIdle = next
      count(run.rootId, next ? -1 : 1)
      if (next) pump()
    }
    count(run.rootId, 1)
    const done = begin(run, setIdle)
      .catch(() => {
        // The store did not answer: the run is as it was, and is taken up again a little later.
        if (!isClosed) setTimeout(() => add(run), RETRY_MS).unref()
      })
      .finally(() => {
        setIdle(false)
        count(run.rootId, -1)
        working.delete(run.id)
        const next = again.get(run.id)
        again.delete(run.id)
        if (next !== undefined) add(next)
        pump()
      })
    working.set(run.id, done)
  }

  /** A run that is wanted while it comes to rest is looked at again afterwards. */
  function add(run: Run): void {
    if (isClosed) return
    sleepers.delete(run.id)
    if (working.has(run.id)) again.set(run.id, run)
    else queue.set(run.id, run)
    pump()
  }

  function setTimer(): void {
    clearTimeout(timer)
    timer = undefined
    if (isClosed || sleepers.size === 0) return
    let first = Number.POSITIVE_INFINITY
    for (const { wakeAtMs } of sleepers.values()) first = Math.min(first, wakeAtMs)
    timer = setTimeout(wake, Math.min(Math.max(first - clock.nowMs(), 0), TIMER_MS_MAX))
    timer.unref()
  }

  function wake(): void {
    const nowMs = clock.nowMs()
    for (const { run, wakeAtMs } of sleepers.values()) {
      if (wakeAtMs > nowMs) continue
      sleepers.delete(run.id)
      due(run).catch(() => {
        sleepers.set(run.id, { run, wakeAtMs: clock.nowMs() + RETRY_MS })
        setTimer()
      })
    }
    setTimer()
  }

  return {
    add,
    sleep(run: Run): void {
      if (run.wakeAtMs === null) return
      sleepers.set(run.id, { run: { tenant: run.tenant, id: run.id }, wakeAtMs: run.wakeAtMs })
      setTimer()
    },
    async close(): Promise<void> {
      isClosed = true
      clearTimeout(timer)
      queue.clear()
      again.clear()
      await Promise.allSettled(working.values())
    },
  }
}
