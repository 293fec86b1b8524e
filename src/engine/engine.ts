import { AppError } from '../contract/app-error.ts'
import { identityOf, type TenantId } from '../contract/principal.ts'
import type { WriteTx } from '../contract/tx.ts'
import { type Attempt, createAttempt, RunStopped } from './attempt.ts'
import { type EngineDeps, isAbandoned, newRunOf, ownerRevokedError } from './core.ts'
import { appendToRun, toEvent } from './journal.ts'
import {
  type EndStatus,
  type Engine,
  type Finalizer,
  isEnded,
  type NewRun,
  type Program,
  type ProgramEnd,
  type Run,
  type RunKind,
} from './ports.ts'
import { createRequests } from './requests.ts'
import { type Claimed, isStuck, mayTidyUp, stuckEnd, takeUp } from './resumes.ts'
import { toRunError } from './run-error.ts'
import { createSchedule } from './schedule.ts'
import { createWatchers } from './watchers.ts'

type Registered = Readonly<{ program: Program; finalizer: Finalizer | undefined }>

/**
 * Runs programs so that crashes and restarts do not affect their outcome.
 *
 * 1. A run changes only together with its journal and the log, in one transaction.
 * 2. A recorded step is never repeated. A step that was in progress when the process died is repeated by the process that resumes
 *    the run. A step that must not be done twice records its beginning, and is told of such a record.
 * 3. A run is active in one process: the one that its row names, while that process lives.
 * 4. A limited number of runs is active at once; others are pending. Child runs share the slot of their parent.
 * 5. A run that waits for a signal or a time exists only in the store.
 * 6. A run during which the process dies repeatedly without progress fails.
 * 7. Before each step the engine checks that the owner of the run is still valid; if not, the run fails.
 */
export function createEngine(deps: EngineDeps): Engine {
  const { database, store, clock, logger } = deps
  const programs = new Map<RunKind, Registered>()
  const attempts = new Map<string, Attempt>()
  const settling = new Set<Promise<void>>()
  const watchers = createWatchers(deps)
  let isClosed = false

  const attemptDeps = {
    ...deps,
    insertChild: async (tx: WriteTx, parent: Run, id: string, start: NewRun) => {
      const run = newRunOf(deps, { ...start, id }, parent.principal, clock.nowMs(), parent)
      await insert(tx, run, start)
      await deps.noteStarted?.(tx, run, parent.principal, undefined)
    },
    newId: deps.newId,
    outcomeOf: watchers.outcomeOf,
    changed: watchers.changed,
    slept: (run: Run) => schedule.sleep(run),
  }

  const requests = createRequests(deps, scheduleReconcile)
  const schedule = createSchedule({ clock, concurrentMax: deps.concurrentMax, begin: execute, due: endWait })

  async function insert(tx: WriteTx, run: Run, { payload = {}, journal = [] }: NewRun): Promise<Run> {
    const row = { type: `${eventPrefix[run.kind]}_started`, payload, iteration: 0 }
    const iteration = journal.at(-1)?.iteration ?? run.iteration
    const started = await appendToRun(deps, tx, run, run.startedAtMs, [row, ...journal], { iteration })
    scheduleReconcile(run.tenant, run.id)
    return started
  }

  /** After the current transaction is committed. */
  function scheduleReconcile(tenant: TenantId, id: string): void {
    if (isClosed) return
    const reconciling = database
      .flush()
      .then(() => store.findRun(database.read, tenant, id))
      .then((run) => {
        schedule.arrived(id)
        return run === undefined ? undefined : reconcile(run)
      })
      .catch((error) => {
        logger.warn('run reconcile failed', { run_id: id, cause: String(error) })
        setTimeout(() => scheduleReconcile(tenant, id), RECONCILE_AGAIN_MS).unref()
      })
      .finally(() => settling.delete(reconciling))
    settling.add(reconciling)
  }

  /** Does for a run what its row requires. */
  async function reconcile(run: Run): Promise<void> {
    watchers.changed(run)
    if (isEnded(run) || isClosed || deps.isReadOnly || run.node !== deps.node) return
    if (run.claim !== null && run.claim !== deps.bootId && (await deps.isAlive(run.claim))) return
    const attempt = attempts.get(run.id)
    if (attempt !== undefined) {
      if (run.cancelRequested) attempt.cancel()
      if (await isAbandoned(deps, database.read, run)) attempt.abandon()
      await attempt.refresh()
    } else if (run.waitingFor !== null && !run.cancelRequested) {
      schedule.sleep(run)
    } else {
      schedule.add(run)
    }
  }

  /** The time that a run waited for has come. */
  async function endWait({ tenant, id }: Pick<Run, 'tenant' | 'id'>): Promise<void> {
    await database.write(tenant, async (tx) => {
      const run = await store.findRun(tx, tenant, id)
      if (run === undefined || isEnded(run) || run.waitingFor === null || run.wakeAtMs === null) return
      // An earlier wait was answered; this is a new one.
      if (run.wakeAtMs > clock.nowMs()) return schedule.sleep(run)
      const row = { type: 'wait_timed_out', key: run.waitingFor, payload: { kind: 'timeout' } }
      await appendToRun(deps, tx, run, clock.nowMs(), [row], { waitingFor: null, wakeAtMs: null })
    })
    scheduleReconcile(tenant, id)
  }

  /** From the beginning of the program to its end or to its next wait. */
  async function execute({ tenant, id }: Run, onIdle: (isIdle: boolean) => void): Promise<void> {
    const claimed = await claim(tenant, id)
    if (claimed === undefined) return
    const { run, resumes } = claimed
    const attempt = createAttempt(attemptDeps, run, onIdle)
    attempts.set(id, attempt)
    try {
      await attempt.refresh()
      if (run.cancelRequested) attempt.cancel()
      else if (await isAbandoned(deps, database.read, run)) attempt.abandon()
      const isOver = isStuck(resumes) && !attempt.isCancelled()
      const end = isOver ? stuckEnd(run, resumes) : await runProgram(run, attempt)
      if (end === 'parked') {
        attempts.delete(id)
        const parked = await store.findRun(database.read, tenant, id)
        if (parked !== undefined) await reconcile(parked)
        return
      }
      await finish(run, attempt, end, mayTidyUp(resumes))
    } catch (error) {
      if (!(error instanceof RunStopped)) throw error
      if (attempt.isShutDown()) await release(run)
    } finally {
      attempts.delete(id)
    }
  }

  /** Undefined if another process has it, or it has ended. */
  const claim = (tenant: TenantId, id: string): Promise<Claimed | undefined> =>
    database.write(tenant, async (tx) => {
      const run = await store.findRun(tx, tenant, id)
      if (run === undefined || isEnded(run)) return undefined
      if (run.claim !== null && run.claim !== deps.bootId && (await deps.isAlive(run.claim))) return undefined
      return await takeUp(deps, tx, run)
    })

  /** An orderly shutdown is not a failure of the run. */
  async function release({ tenant, id }: Run): Promise<void> {
    try {
      await database.write(tenant, async (tx) => {
        const run = await store.findRun(tx, tenant, id)
        if (run === undefined || isEnded(run) || run.claim !== deps.bootId) return
        await store.saveRun(tx, { ...run, claim: null })
      })
    } catch (error) {
      logger.warn('run could not be released', { run_id: id, cause: String(error) })
    }
  }

  async function runProgram(run: Run, attempt: Attempt): Promise<ProgramEnd | 'cancelled' | 'parked'> {
    if (attempt.isAbandoned()) return abandonedEnd()
    if (attempt.isCancelled()) return 'cancelled'
    try {
      const registered = programs.get(run.kind)
      if (registered === undefined) throw new Error(`no program for runs of the kind ${run.kind}`)
      const running = registered.program(run, attempt.steps)
      // A parked run leaves its promise behind.
      running.catch(() => {})
      const end = await Promise.race([running, attempt.parked])
      // The last step may have shown that the run is cancelled, and the program need not take another.
      return attempt.isCancelled() && !attempt.isAbandoned() && end !== 'parked' ? 'cancelled' : end
    } catch (error) {
      if (attempt.isShutDown()) throw new RunStopped('the server ends')
      if (attempt.isAbandoned()) return abandonedEnd()
      if (attempt.isCancelled()) return 'cancelled'
      if (error instanceof RunStopped) throw error
      return { status: 'failed', output: null, error: failureOf(run, error) }
    }
  }

  function failureOf(run: Run, error: unknown) {
    if (error instanceof AppError) return toRunError(error)
    logger.error('run failed with an internal error', {
      run_id: run.id,
      cause: error instanceof Error ? (error.stack ?? error.message) : String(error),
    })
    const message = `The run failed because of an internal error. Give the operator this reference: ${run.id}.`
    return toRunError(new AppError('ERR_INTERNAL', message, { reference: run.id }))
  }

  async function finish(run: Run, attempt: Attempt, end: ProgramEnd | 'cancelled', isTidied: boolean): Promise<void> {
    const status: EndStatus = end === 'cancelled' ? 'cancelled' : end.status
    try {
      if (isTidied) await programs.get(run.kind)?.finalizer?.(run, attempt.lastSteps, status)
    } catch (error) {
      if (attempt.isShutDown() || error instanceof RunStopped) throw new RunStopped('the server ends')
      logger.warn('run cleanup failed', { run_id: run.id, cause: String(error) })
    }
    const output = end === 'cancelled' ? null : end.output
    const error = end === 'cancelled' ? null : (end.error ?? null)
    const event = end === 'cancelled' ? undefined : end.event
    const row = event ?? {
      type: `${eventPrefix[run.kind]}_${status}`,
      payload: error === null ? {} : { error },
    }
    await attempt.commit([row], {
      status,
      output,
      error,
      endedAtMs: clock.nowMs(),
      waitingFor: null,
      wakeAtMs: null,
    })
  }

  /** Ends the runs of revoked owners: active ones at once, pending ones as soon as there is a slot. */
  async function leaveAbandoned(isSelected: (run: Run) => boolean): Promise<void> {
    for (const run of await store.openRunsOnNode(database.read, deps.node)) {
      if (!isSelected(run) || !(await isAbandoned(deps, database.read, run))) continue
      const attempt = attempts.get(run.id)
      if (attempt === undefined) schedule.add(run)
      else attempt.abandon()
    }
  }

  let reconciling: NodeJS.Timeout | undefined

  /** All runs of this node that have not ended; repeated in a store that others write to as well. */
  async function reconcileAll(): Promise<void> {
    try {
      for (const run of await store.openRunsOnNode(database.read, deps.node)) await reconcile(run)
    } catch (error) {
      logger.warn('reconcile of all runs failed', { cause: String(error) })
    }
    if (isClosed || database.kind !== 'postgres') return
    reconciling = setTimeout(() => void reconcileAll(), deps.reconcileMs)
    reconciling.unref()
  }

  return {
    register: (kind, program, finalizer) => void programs.set(kind, { program, finalizer }),
    async start(call, start) {
      const run = newRunOf(deps, start, call.principal, call.nowMs, undefined)
      if (schedule.pendingOf(run) >= deps.pendingMax) throw tooManyPending(deps.pendingMax)
      schedule.expect(run)
      const inserted = await insert(call.write, run, start).catch((error: unknown) => {
        schedule.arrived(run.id)
        throw error
      })
      await deps.noteStarted?.(call.write, inserted, call.principal, start.copiedFrom)
      return inserted
    },
    ...requests,
    find: (tx, tenant, id) => store.findRun(tx, tenant, id),
    list: (tx, tenant, filter) => store.listRuns(tx, tenant, filter),
    count: (tx, tenant, filter) => store.countRuns(tx, tenant, filter),
    async events(tx, { tenant, id, lastSequence }, { limit, offset }) {
      const rows = await store.listEvents(tx, tenant, id, { after: offset, limit })
      return { events: rows.map(toEvent), total: lastSequence }
    },
    waitForEnd: watchers.waitForEnd,
    subscribe: watchers.subscribe,
    async ownerRevoked(tenant, owner) {
      if (isClosed || deps.isReadOnly) return
      await leaveAbandoned(
        (run) => run.tenant === tenant && (run.owner === owner || identityOf(run.principal) === owner),
      )
    },
    subscribeSubject: watchers.subscribeSubject,
    async begin() {
      if (deps.isReadOnly) return
      await reconcileAll()
      await leaveAbandoned(({ waitingFor }) => waitingFor !== null)
    },
    async close() {
      isClosed = true
      clearTimeout(reconciling)
      watchers.close()
      for (const attempt of attempts.values()) attempt.shutDown()
      await schedule.close()
      await Promise.allSettled(settling)
    },
  }
}

/** Otherwise runs that start runs would fill the store without bound. */
const tooManyPending = (most: number): AppError =>
  new AppError(
    'ERR_QUOTA_EXCEEDED',
    `You have reached the limit of ${most} pending runs. Wait until some have started, or cancel some.`,
    { pending_max: most },
  )

const abandonedEnd = (): ProgramEnd => ({ status: 'failed', output: null, error: toRunError(ownerRevokedError()) })

/** The delay before a run is reconciled again if the store did not answer. */
const RECONCILE_AGAIN_MS = 200

const eventPrefix = {
  execution: 'execution',
  workflow: 'workflow_execution',
  intent: 'intent_execution_pipeline',
} as const
