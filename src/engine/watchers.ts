import type { TenantId } from '../contract/principal.ts'
import { TIMER_MS_MAX } from '../kernel/clock.ts'
import { RunStopped } from './attempt.ts'
import { type EngineDeps, outcomeOf } from './core.ts'
import { readJournal } from './journal.ts'
import { type Engine, isEnded, type Run, type RunEvent, type RunOutcome } from './ports.ts'
import { createSubjectReader } from './subject-feed.ts'

type Watcher = () => void

/** Listeners for changes of runs. They are notified at once of changes by this process, and soon of changes by others. */
export function createWatchers(deps: EngineDeps) {
  const { database, store, clock } = deps
  const watching = new Map<string, Set<Watcher>>()
  const closing = new AbortController()

  function changed({ tenant, id, subjectId }: Pick<Run, 'tenant' | 'id' | 'subjectId'>): void {
    for (const one of [id, subjectId]) for (const watcher of watching.get(`${tenant}/${one}`) ?? []) watcher()
  }

  /** Resolves at the next change, at the time, or when stopped. */
  async function nextChange(tenant: TenantId, id: string, stop: AbortSignal, untilMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const key = `${tenant}/${id}`
    const set = watching.get(key) ?? new Set()
    watching.set(key, set)
    set.add(resolve)
    const waitMs = Math.min(untilMs - clock.nowMs(), database.kind === 'postgres' ? deps.reconcileMs : TIMER_MS_MAX)
    const timer = setTimeout(resolve, Math.max(waitMs, 0))
    stop.addEventListener('abort', () => resolve(), { once: true })
    if (stop.aborted) resolve()
    await promise
    clearTimeout(timer)
    set.delete(resolve)
    if (set.size === 0) watching.delete(key)
  }

  /** Calls `see` with the run after each change and when `dueInMs` has passed, until `see` answers true. */
  async function watch(
    tenant: TenantId,
    id: string,
    { untilMs, signal, dueInMs }: Readonly<{ untilMs: number; signal: AbortSignal; dueInMs?: () => number }>,
    see: (run: Run | undefined) => boolean | Promise<boolean>,
  ): Promise<void> {
    const stop = AbortSignal.any([signal, closing.signal])
    for (;;) {
      // Registered before the read, so that no change falls between the two.
      const step = new AbortController()
      const wakeMs = dueInMs === undefined ? untilMs : Math.min(untilMs, clock.nowMs() + dueInMs())
      const change = nextChange(tenant, id, AbortSignal.any([stop, step.signal]), wakeMs)
      try {
        const isDone = await see(await store.findRun(database.read, tenant, id))
        if (isDone || stop.aborted || clock.nowMs() >= untilMs) return
        await change
      } finally {
        step.abort()
      }
    }
  }

  const waitForEnd: Engine['waitForEnd'] = async (tenant, id, options) => {
    const { everyMs = Number.POSITIVE_INFINITY, onProgress } = options
    let last: Run | undefined
    let toldMs = clock.monotonicMs()
    const leftMs = () => everyMs - (clock.monotonicMs() - toldMs)
    // The following call reports what is due now, so the next time is a whole interval away.
    const dueInMs = () => (leftMs() > 0 ? leftMs() : everyMs)
    await watch(tenant, id, { ...options, dueInMs }, async (run) => {
      if (run !== undefined && (last?.lastSequence !== run.lastSequence || leftMs() <= 0)) {
        toldMs = clock.monotonicMs()
        await onProgress?.(run)
      }
      last = run
      return run === undefined || isEnded(run)
    })
    return last
  }

  async function ended(tenant: TenantId, id: string, signal: AbortSignal): Promise<RunOutcome> {
    const run = await waitForEnd(tenant, id, { untilMs: Number.POSITIVE_INFINITY, signal })
    if (run === undefined || !isEnded(run)) throw new RunStopped('the wait for a run below was stopped')
    return outcomeOf(run)
  }

  async function* subscribe(
    tenant: TenantId,
    id: string,
    { fromSequence, signal }: Readonly<{ fromSequence: number; signal: AbortSignal }>,
  ): AsyncGenerator<RunEvent> {
    let last = fromSequence
    for (let isOver = false; !isOver; ) {
      let target = last
      await watch(tenant, id, { untilMs: Number.POSITIVE_INFINITY, signal }, (run) => {
        isOver = run === undefined || isEnded(run)
        target = run?.lastSequence ?? last
        return isOver || target > last
      })
      if (signal.aborted || closing.signal.aborted) return
      for await (const event of readJournal(deps, database.read, tenant, id, last)) {
        last = event.sequence
        yield event
      }
    }
  }

  const subscribeSubject: Engine['subscribeSubject'] = async function* (tenant, { follow, signal, ...filter }) {
    const reader = createSubjectReader(deps, tenant, filter)
    const stop = AbortSignal.any([signal, closing.signal])
    for (;;) {
      const step = new AbortController()
      // Registered before the read, so that no change falls between the two.
      const change = nextChange(
        tenant,
        filter.subjectId,
        AbortSignal.any([stop, step.signal]),
        Number.POSITIVE_INFINITY,
      )
      try {
        yield* reader.read()
        if (!follow || stop.aborted) return
        await change
      } finally {
        step.abort()
      }
      if (stop.aborted) return
    }
  }

  return { changed, waitForEnd, outcomeOf: ended, subscribe, subscribeSubject, close: () => closing.abort() }
}
