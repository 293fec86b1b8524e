import { isDeepStrictEqual } from 'node:util'
import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { errorCodes } from '../../contract/error-codes.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { type Engine, isEnded, type Run, type StartingCall } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { type Clock, isoTime, TIMER_MS_MAX } from '../../kernel/clock.ts'
import { fault } from '../../kernel/fault.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { DueTimes } from './due-times.ts'
import type { Schedule, ScheduleStore } from './ports.ts'

export type SchedulerDeps = Readonly<{
  store: ScheduleStore
  database: Pick<Database, 'read' | 'write' | 'flush' | 'kind'>
  engine: Pick<Engine, 'find' | 'waitForEnd'>
  clock: Clock
  logger: Logger
  /** A read-only server starts nothing. */
  isReadOnly: boolean
  owners: Pick<OwnerDirectory, 'isRevoked'>
  mayStart(schedule: Schedule): boolean
  /** Starts the latest version in the transaction of the call; undefined if the subject does not run at present. */
  start(call: StartingCall, schedule: Schedule, reason: Readonly<Record<string, Json>>): Promise<Run | undefined>
  /** How often a store that other processes also write is polled. */
  reconcileMs: number
}>

/** Also says when the next time fires. */
type Times = DueTimes & Readonly<{ fireMs: number | null }>

const namesOf = ({ kind, subjectId }: Schedule): Record<string, string> => ({ [`${kind}_id`]: subjectId })

export type Scheduler = ReturnType<typeof createScheduler>

const RETRY_MS = 1_000
/** A time that passed longer ago than this came while no server was running. */
const LATE_MS = 60_000

/**
 * Starts runs when their time has come.
 * 1. The start of the run and the next time of its schedule are one transaction. A process that comes second, after a
 *    crash or on another server, finds the next time in the future.
 * 2. Of several times that have passed the newest counts; the others are reported as `missed` with the run.
 * 3. While the last run is active: `skip` lets the time pass, `queue` starts one as soon as the run has ended, `allow`
 *    starts at once.
 * 4. One timer for all; nothing about a schedule is cached in memory.
 */
export function createScheduler(deps: SchedulerDeps) {
  const { store, database, engine, clock, logger } = deps
  const closing = new AbortController()
  const awaited = new Set<string>()
  const settling = new Set<Promise<unknown>>()
  let timer: NodeJS.Timeout | undefined
  let reconciling: Promise<void> | undefined
  let isRescheduled = false
  let hasStarted = false

  function settle(work: Promise<unknown>): void {
    const settled = work.catch(warn('schedule reconcile failed')).finally(() => settling.delete(settled))
    settling.add(settled)
  }

  const warn =
    (message: string, fields: Record<string, string> = {}) =>
    (error: unknown): void =>
      logger.warn(message, { ...fields, cause: String(error) })

  /**
   * Starts everything that is due. Only one pass runs at a time; a request during a pass starts another one after it.
   */
  function reconcile(): Promise<void> {
    if (closing.signal.aborted || deps.isReadOnly || !hasStarted) return Promise.resolve()
    isRescheduled = true
    reconciling ??= (async () => {
      while (isRescheduled && !closing.signal.aborted) {
        isRescheduled = false
        await reconcileOnce()
      }
    })().finally(() => {
      reconciling = undefined
    })
    return reconciling
  }

  async function reconcileOnce(): Promise<void> {
    clearTimeout(timer)
    const nowMs = clock.nowMs()
    let waitMs = database.kind === 'postgres' ? deps.reconcileMs : TIMER_MS_MAX
    try {
      for (const schedule of await store.due(database.read, nowMs)) {
        if (closing.signal.aborted) return
        if (awaited.has(schedule.lastRunId ?? '')) continue
        if (!(await tryFire(schedule))) waitMs = Math.min(waitMs, RETRY_MS)
      }
      const firstMs = await store.firstAfter(database.read, nowMs)
      if (firstMs !== undefined) waitMs = Math.min(waitMs, Math.max(firstMs - clock.nowMs(), 0))
    } catch (error) {
      warn('reconcile of schedules failed')(error)
      waitMs = RETRY_MS
    }
    if (closing.signal.aborted) return
    timer = setTimeout(() => settle(reconcile()), waitMs)
    timer.unref()
  }

  /** Returns false if the store did not accept it, so that it must be tried again. */
  async function tryFire(schedule: Schedule): Promise<boolean> {
    const { subjectId, principal } = schedule
    fault('schedule.due')
    const { dueTimes, firingTime } = await import('./due-times.ts')
    const nowMs = clock.nowMs()
    // Computed in advance: calendar arithmetic is slow, and a transaction blocks all others.
    const due = dueTimes(schedule.timing, schedule.dueAtMs, nowMs)
    const times = { ...due, fireMs: due.nextMs && firingTime(schedule.timing, subjectId, due.nextMs) }
    const inTransaction = (work: (tx: WriteTx) => Promise<void>): Promise<void> =>
      database.write(principal.tenant, async (tx) => {
        await store.lock(tx, schedule.tenant)
        const current = await store.find(tx, schedule.tenant, subjectId)
        // Another server was first, or the subject was deployed again meanwhile.
        if (!isDeepStrictEqual(current, schedule)) isRescheduled = true
        else await work(tx)
      })
    try {
      await inTransaction((tx) => fire(tx, schedule, times, nowMs))
      return true
    } catch (error) {
      warn('a scheduled run was not started', namesOf(schedule))(error)
      if (!(error instanceof AppError) || errorCodes[error.code].kind === 'unavailable') return false
      const isSubjectMissing = error.code === 'ERR_AGENT_NOT_FOUND' || error.code === 'ERR_WORKFLOW_NOT_FOUND'
      return await inTransaction((tx) =>
        isSubjectMissing ? remove(tx, schedule) : advance(tx, schedule, times, { missed: 1 }),
      ).then(
        () => true,
        () => false,
      )
    }
  }

  async function fire(tx: WriteTx, schedule: Schedule, times: Times, nowMs: number): Promise<void> {
    const { timing, principal, owner, lastRunId } = schedule
    if (await deps.owners.isRevoked(tx, principal.tenant, owner)) return await remove(tx, schedule)
    if (!deps.mayStart(schedule)) return await advance(tx, schedule, times, { missed: 1 })
    const last =
      lastRunId === null ? undefined : await engine.find(tx as unknown as ReadTx, principal.tenant, lastRunId)
    const isOpen = last !== undefined && !isEnded(last)
    if (isOpen && timing.overlap === 'skip') return await advance(tx, schedule, times, { skipped: 1 })
    if (isOpen && timing.overlap === 'queue') return reconcileAfter(last)
    const wasQueued = timing.overlap === 'queue' && (last?.endedAtMs ?? 0) > times.newestMs
    if (timing.missed === 'skip' && !wasQueued && nowMs - times.newestMs > LATE_MS + timing.jitterMs) {
      return await advance(tx, schedule, times, { missed: 1 })
    }
    const missed = schedule.missed + times.older
    const reason = { schedule: { due_at: isoTime(times.newestMs), missed, skipped: schedule.skipped } }
    const run = await deps.start({ write: tx, principal, nowMs }, schedule, reason)
    if (run === undefined) return await advance(tx, schedule, times, { skipped: 1 })
    await put(tx, { ...schedule, lastRunId: run.id, missed: 0, skipped: 0 }, times)
  }

  type Counts = Readonly<{ missed?: number; skipped?: number }>

  /** Lets the times pass. Nobody could have started those before the newest one. */
  async function advance(tx: WriteTx, schedule: Schedule, times: Times, counts: Counts): Promise<void> {
    const missed = schedule.missed + times.older + (counts.missed ?? 0)
    const skipped = schedule.skipped + (counts.skipped ?? 0)
    logger.info('scheduled run skipped', { ...namesOf(schedule), missed, skipped })
    await put(tx, { ...schedule, missed, skipped }, times)
  }

  async function put(tx: WriteTx, schedule: Schedule, { nextMs, fireMs }: Times): Promise<void> {
    if (nextMs === null || fireMs === null) await store.remove(tx, schedule.tenant, schedule.subjectId)
    else await store.put(tx, { ...schedule, dueAtMs: nextMs, nextAtMs: fireMs })
  }

  async function remove(tx: WriteTx, schedule: Schedule): Promise<void> {
    await store.remove(tx, schedule.tenant, schedule.subjectId)
    logger.info('schedule removed: its subject or its owner no longer exists', namesOf(schedule))
  }

  function reconcileAfter({ tenant, id }: Run): void {
    if (awaited.has(id)) return
    awaited.add(id)
    const { signal } = closing
    const ended = engine.waitForEnd(tenant, id, { untilMs: Number.POSITIVE_INFINITY, signal })
    settle(ended.finally(() => awaited.delete(id)).then(() => reconcile()))
  }

  return {
    reconcile,
    /** After the transaction in progress is committed. */
    scheduleReconcile(): void {
      if (hasStarted) settle(database.flush().then(reconcile))
    },
    async begin(): Promise<void> {
      hasStarted = true
      await reconcile()
    },
    async close(): Promise<void> {
      closing.abort()
      clearTimeout(timer)
      await reconciling
      await Promise.allSettled(settling)
    },
  }
}
