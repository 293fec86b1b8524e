import { LOCAL_OWNER } from '../contract/principal.ts'
import { type Clock, TIMER_MS_MAX } from '../kernel/clock.ts'
import type { Run } from './ports.ts'

type Sleeper = Readonly<{ run: Pick<Run, 'tenant' | 'id'>; wakeAtMs: number }>

type ScheduleDeps = Readonly<{
  clock: Clock
  concurrentMax: number
  /** Settles when the run no longer needs a slot. `onIdle` says whether it only waits for its child runs. */
  begin(run: Run, onIdle: (isIdle: boolean) => void): Promise<void>
  due(run: Pick<Run, 'tenant' | 'id'>): Promise<void>
}>

const RETRY_MS = 200

const ownerOf = ({ tenant, owner }: Run): string => JSON.stringify([tenant, owner])

/** The active runs, those that wait for a slot, and those that wait for a time. One timer serves all that wait for a time. */
export function createSchedule({ clock, concurrentMax, begin, due }: ScheduleDeps) {
  const queue = new Map<string, Run>()
  const working = new Map<string, Promise<void>>()
  /** Active members of each tree of runs. */
  const trees = new Map<string, number>()
  /** Active trees of each owner. */
  const held = new Map<string, number>()
  const sleepers = new Map<string, Sleeper>()
  const again = new Map<string, Run>()
  /** Started by a caller, and not yet read back after their commit. */
  const arriving = new Map<string, Run>()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  function shift(counts: Map<string, number>, key: string, by: 1 | -1): number {
    const after = (counts.get(key) ?? 0) + by
    if (after > 0) counts.set(key, after)
    else counts.delete(key)
    return after
  }

  function count(run: Run, by: 1 | -1): void {
    const members = shift(trees, run.rootId, by)
    if (members === (by === 1 ? 1 : 0)) shift(held, ownerOf(run), by)
  }

  /** One slot is always left to other owners, unless there is only one, or the local owner uses them all. */
  const slotsOf = ({ owner }: Run): number =>
    owner === LOCAL_OWNER || concurrentMax === 1 ? concurrentMax : concurrentMax - 1

  /**
   * The run to start next. A member of an active tree never waits. Of the others, the run whose owner has the fewest active trees
   * starts, so that no owner waits for all runs of another.
   */
  function next(): Run | undefined {
    let chosen: Run | undefined
    let fewest = Number.POSITIVE_INFINITY
    for (const run of queue.values()) {
      if (run.depth > 0 || trees.has(run.rootId)) return run
      if (trees.size >= concurrentMax) continue
      const atWork = held.get(ownerOf(run)) ?? 0
      if (atWork >= Math.min(fewest, slotsOf(run))) continue
      chosen = run
      fewest = atWork
    }
    return chosen
  }

  function pump(): void {
    for (let run = next(); run !== undefined && !isClosed; run = next()) {
      queue.delete(run.id)
      start(run)
    }
  }

  function start(run: Run): void {
    let isIdle = false
    const setIdle = (isNowIdle: boolean): void => {
      if (isNowIdle === isIdle) return
      isIdle = isNowIdle
      count(run, isNowIdle ? -1 : 1)
      if (isNowIdle) pump()
    }
    count(run, 1)
    const done = begin(run, setIdle)
      .catch(() => {
        // The store did not answer: the run is unchanged, and is scheduled again a little later.
        if (!isClosed) setTimeout(() => add(run), RETRY_MS).unref()
      })
      .finally(() => {
        setIdle(false)
        count(run, -1)
        working.delete(run.id)
        const rescheduled = again.get(run.id)
        again.delete(run.id)
        if (rescheduled !== undefined) add(rescheduled)
        pump()
      })
    working.set(run.id, done)
  }

  /** How many runs of the same owner wait for a slot, or will when they arrive. */
  function pendingOf(run: Run): number {
    const owner = ownerOf(run)
    const isSame = (other: Run): boolean => ownerOf(other) === owner
    const queued = queue.values().filter(isSame).toArray().length
    const free = Math.min(concurrentMax - trees.size, slotsOf(run) - (held.get(owner) ?? 0))
    return queued + Math.max(0, arriving.values().filter(isSame).toArray().length - Math.max(0, free))
  }

  /** A run that is scheduled while it parks is reconciled again afterwards. */
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
    pendingOf,
    /** The run counts as pending, in as far as there is no slot for it, until it has arrived. */
    expect: (run: Run): void => void arriving.set(run.id, run),
    arrived: (id: string): void => void arriving.delete(id),
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
