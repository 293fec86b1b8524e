import { AppError } from '../contract/app-error.ts'
import type { Database } from '../contract/database.ts'
import { errorCodes } from '../contract/error-codes.ts'
import { limits } from '../contract/limits.ts'
import type { TenantId } from '../contract/principal.ts'
import type { WriteTx } from '../contract/tx.ts'
import type { Json } from '../kernel/canonical-json.ts'
import type { Clock } from '../kernel/clock.ts'
import { fault } from '../kernel/fault.ts'
import { pause } from '../kernel/pause.ts'
import { plainJson } from '../kernel/plain-json.ts'
import { type EngineDeps, isAbandoned } from './core.ts'
import { appendToRun, type JournalDeps, type NewRow, type RunChange, readJournal } from './journal.ts'
import {
  isEnded,
  type NewRun,
  type Run,
  type RunError,
  type RunOutcome,
  type StepOptions,
  type Steps,
} from './ports.ts'
import { toRunError } from './run-error.ts'

/** Ends the program of a run that is cancelled, or whose server shuts down. Programs must not catch it. */
export class RunStopped extends Error {
  override name = 'RunStopped'
}

type AttemptDeps = JournalDeps &
  Readonly<{
    database: Pick<Database, 'write' | 'read'>
    clock: Clock
    bootId: string
    owners: EngineDeps['owners']
    /** Writes a new child run of `parent`; it starts after the commit. */
    insertChild(tx: WriteTx, parent: Run, id: string, start: NewRun): Promise<void>
    newId(): string
    outcomeOf(tenant: TenantId, id: string, signal: AbortSignal): Promise<RunOutcome>
    changed(run: Run): void
    /** The run waits inside a step, at most until its time. */
    slept(run: Run): void
  }>

type Recorded = Readonly<{ type: string; payload: Json; atMs: number }>

const FAILED = 'step_failed'
const noteKey = (position: number): string => `~note-${position}`

/**
 * One pass of a program, from its beginning to its end, to a wait, or to the shutdown of the server. It answers recorded steps
 * from the journal and records the others.
 */
export type Attempt = ReturnType<typeof createAttempt>

export function createAttempt(deps: AttemptDeps, from: Run, onIdle: (isIdle: boolean) => void) {
  const recorded = new Map<string, Recorded>()
  const stop = new AbortController()
  const shutdown = new AbortController()
  const waits = new Map<string, (recorded: Recorded) => void>()
  const parking = Promise.withResolvers<'parked'>()
  let run = from
  let nowMs = from.startedAtMs
  let readTo = 0
  let notesTold = 0
  let pending: NewRow[] = []
  let position: RunChange = {}
  let busy = 0
  let childWaits = 0
  let isDropped = false
  let isLeft = false

  /** Reads rows that others wrote into the journal meanwhile, such as signals and ends of waits; the first time, all of it. */
  async function refresh(): Promise<void> {
    for await (const event of readJournal(deps, deps.database.read, from.tenant, from.id, readTo)) {
      readTo = event.sequence
      if (event.key === null || recorded.has(event.key)) continue
      const found = { type: event.type, payload: event.payload, atMs: event.atMs }
      recorded.set(event.key, found)
      waits.get(event.key)?.(found)
      waits.delete(event.key)
    }
  }

  /** Retries until the store accepts it: completed work must not be repeated because its record is missing. */
  async function commit(
    rows: readonly NewRow[],
    change: RunChange,
    alsoWrite?: (tx: WriteTx, run: Run) => Promise<void>,
  ): Promise<void> {
    const told = pending
    const all = [...told, ...rows]
    pending = []
    for (let delayMs: number = limits.runRetryMsMin; ; delayMs = Math.min(delayMs * 2, limits.runRetryMsMax)) {
      try {
        run = await deps.database.write(from.tenant, (tx) => tryCommit(tx, all, change, alsoWrite))
        position = {}
        break
      } catch (error) {
        if (!(error instanceof AppError) || errorCodes[error.code].kind !== 'unavailable') {
          pending = [...told, ...pending]
          throw error
        }
        await pause(delayMs, shutdown.signal).catch(() => {
          throw new RunStopped('the server ends')
        })
      }
    }
    for (const row of all) remember(row, run.changedAtMs)
    if (run.cancelRequested) stop.abort()
    deps.changed(run)
  }

  async function tryCommit(
    tx: WriteTx,
    rows: readonly NewRow[],
    change: RunChange,
    alsoWrite: ((tx: WriteTx, run: Run) => Promise<void>) | undefined,
  ): Promise<Run> {
    const current = await deps.store.findRun(tx, from.tenant, from.id)
    if (current === undefined || current.claim !== deps.bootId) throw new RunStopped('another process has the run')
    if (isEnded(current)) return current
    // After a commit with an unknown outcome, its rows may be there.
    if (current.lastSequence > run.lastSequence && (await hasRow(tx, rows))) return current
    await alsoWrite?.(tx, current)
    return await appendToRun(deps, tx, current, deps.clock.nowMs(), rows, {
      status: 'running',
      ...position,
      ...change,
    })
  }

  async function hasRow(tx: WriteTx, rows: readonly NewRow[]): Promise<boolean> {
    const keys = new Set(rows.flatMap(({ key }) => key ?? []))
    for await (const { key } of readJournal(deps, tx, from.tenant, from.id, run.lastSequence)) {
      if (key !== null && keys.has(key)) return true
    }
    return false
  }

  function remember({ key, type, payload = {} }: NewRow, atMs: number): void {
    nowMs = Math.max(nowMs, atMs)
    // Stored as it will be read back: values that JSON omits are omitted now, so that every pass sees the same.
    if (key != null) recorded.set(key, { type, payload: plainJson(payload), atMs })
  }

  function answer<T extends Json>({ type, payload, atMs }: Recorded): T {
    nowMs = Math.max(nowMs, atMs)
    if (type === FAILED) throw toAppError(payload as RunError)
    return payload as T
  }

  async function occupied<T>(work: () => Promise<T>): Promise<T> {
    busy++
    try {
      return await work()
    } finally {
      busy--
      considerParking()
    }
  }

  /** A wait inside a step cannot be suspended and resumed, but releases its slot meanwhile. */
  async function idling<T>(waiting: Promise<T>): Promise<T> {
    childWaits++
    if (busy === 1) onIdle(true)
    try {
      return await waiting
    } finally {
      childWaits--
      onIdle(false)
    }
  }

  /** Checks again a moment later: the client that just got an answer may be about to take the next step. */
  function considerParking(): void {
    if (waits.size === 0) return
    setImmediate(() => {
      if (busy > 0 || childWaits > 0 || waits.size === 0 || isDropped) return
      isDropped = true
      parking.resolve('parked')
    })
  }

  /** The owner of the run was revoked: the run stops here, and fails. */
  function abandon(): void {
    isLeft = true
    stop.abort()
  }

  const stepsWith = (signal: AbortSignal, isTidying: boolean): Steps => {
    const requireGoingOn = (): void => {
      if (isDropped || signal.aborted) throw new RunStopped('the run was stopped')
    }

    /** As late as possible before an effect. */
    async function requireOwner(): Promise<void> {
      requireGoingOn()
      if (isTidying) return
      if (await isAbandoned(deps, deps.database.read, from)) abandon()
      requireGoingOn()
    }

    async function doOnce<T extends Json>(key: string, work: Parameters<Steps['once']>[1], options: StepOptions) {
      requireGoingOn()
      const began = `${key}~began`
      const interrupted = recorded.has(began)
      if (options.intent === true && !interrupted) {
        const { type = 'step_began', payload } = options.began ?? {}
        await commit([{ type, key: began, payload: { step: key, ...(payload as object | undefined) } }], {})
      }
      await requireOwner()
      fault('run.step.before')
      const rows: NewRow[] = []
      try {
        const { result, events = [], type = options.type ?? 'step_completed' } = await work({ interrupted })
        if (options.began !== undefined && options.intent !== true) rows.push(options.began)
        rows.push({ type, key, payload: result }, ...events)
      } catch (error) {
        if (signal.aborted) throw new RunStopped('the run was stopped')
        if (!(error instanceof AppError)) throw error
        rows.push({ type: FAILED, key, payload: toRunError(error) })
      }
      fault('run.step.after')
      await commit(rows, {})
      return answer<T>(recorded.get(key)!)
    }

    async function doChild(key: string, start: NewRun): Promise<RunOutcome> {
      await requireOwner()
      const linkKey = `${key}~child`
      if (!recorded.has(linkKey)) {
        const id = start.id ?? deps.newId()
        const { kind, subjectId, subjectName } = start
        const payload = { run_id: id, kind, subject_id: subjectId, subject_name: subjectName }
        try {
          await commit([{ type: childEvents[kind].started, key: linkKey, payload }], {}, (tx, parent) =>
            deps.insertChild(tx, parent, id, start),
          )
        } catch (error) {
          if (!(error instanceof AppError)) throw error
          await commit([{ type: FAILED, key, payload: toRunError(error) }], {})
          return answer<RunOutcome & Json>(recorded.get(key)!)
        }
      }
      const { run_id: id } = recorded.get(linkKey)!.payload as { run_id: string }
      await idling(
        (async () => {
          const outcome = await deps.outcomeOf(from.tenant, id, signal)
          requireGoingOn()
          await commit([{ type: childEvents[start.kind].ended, key, payload: outcome }], {})
        })(),
      )
      return answer<RunOutcome & Json>(recorded.get(key)!)
    }

    return {
      signal,
      nowMs: () => nowMs,
      async once<T extends Json>(key: string, work: Parameters<Steps['once']>[1], options: StepOptions = {}) {
        const found = recorded.get(key)
        if (found !== undefined) return answer<T>(found)
        return await occupied(() => doOnce<T>(key, work, options))
      },
      recorded: (key) => recorded.get(key)?.payload,
      result(key) {
        const found = recorded.get(key)
        return found?.type === FAILED ? undefined : found?.payload
      },
      note(...events) {
        for (const event of events) {
          const key = noteKey(++notesTold)
          const found = recorded.get(key)
          if (found !== undefined) nowMs = Math.max(nowMs, found.atMs)
          else pending.push({ ...event, key })
        }
      },
      async tell() {
        if (pending.length === 0) return
        requireGoingOn()
        await occupied(() => commit([], {}))
      },
      setPosition({ iteration, state }) {
        position = {
          ...position,
          ...(iteration !== undefined && { iteration }),
          ...(state !== undefined && { state }),
        }
      },
      async wait(key, { untilMs, details, alongside }) {
        type Answer = Awaited<ReturnType<Steps['wait']>> & Json
        const found = recorded.get(key)
        if (found !== undefined) return answer<Answer>(found)
        if (waits.size > 0) throw new Error('a run waits for one thing at a time')
        const opened = `${key}~waiting`
        if (!recorded.has(opened)) {
          await occupied(async () => {
            await requireOwner()
            const row = { type: 'wait_began', key: opened, payload: { step: key, details, until_ms: untilMs ?? null } }
            await commit([row], { waitingFor: key, wakeAtMs: untilMs ?? null }, alongside)
          })
        }
        requireGoingOn()
        const { promise, resolve, reject } = Promise.withResolvers<Recorded>()
        // The run may be stopped while the journal is read, before a listener is registered.
        promise.catch(() => {})
        waits.set(key, resolve)
        signal.addEventListener('abort', () => reject(new RunStopped('the run was stopped')), { once: true })
        await refresh()
        requireGoingOn()
        considerParking()
        if (busy === 0) return answer<Answer>(await promise)
        deps.slept(run)
        return answer<Answer>(await idling(promise))
      },
      async child(key, start) {
        const found = recorded.get(key)
        if (found !== undefined) return answer<RunOutcome & Json>(found)
        return await occupied(() => doChild(key, start))
      },
    }
  }

  return {
    run: () => run,
    refresh,
    commit,
    parked: parking.promise,
    steps: stepsWith(AbortSignal.any([stop.signal, shutdown.signal]), false),
    /** For cleanup, which only the shutdown of the server stops. */
    lastSteps: stepsWith(shutdown.signal, true),
    cancel: () => stop.abort(),
    isCancelled: () => stop.signal.aborted,
    abandon,
    isAbandoned: () => isLeft,
    shutDown: () => shutdown.abort(),
    isShutDown: () => shutdown.signal.aborted,
  }
}

const childEvents = {
  execution: { started: 'child_execution_spawned', ended: 'child_execution_completed' },
  workflow: { started: 'subworkflow_triggered', ended: 'subworkflow_completed' },
  intent: { started: 'subworkflow_triggered', ended: 'subworkflow_completed' },
} as const

const toAppError = ({ code, message, details }: RunError): AppError => new AppError(code, message, details)
