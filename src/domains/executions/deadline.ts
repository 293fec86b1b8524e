import { AppError } from '../../contract/app-error.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import { type Clock, TIMER_MS_MAX } from '../../kernel/clock.ts'
import type { ExecutionInput } from './ports.ts'

/**
 * A deadline for work. Decisions depend on recorded times only; the clock ends work in progress, and the outcome is then
 * recorded.
 */
export type Deadline = {
  untilMs: number
  readonly what: string
  readonly field: string
  /** Waiting for a person does not count, but postpones the deadline at most to this time; absent if it cannot be postponed. */
  readonly latestMs?: number
}

/** How long a person can be waited for. */
export const waitableUntil = (deadlines: readonly Deadline[]): number =>
  Math.min(...deadlines.map(({ untilMs, latestMs }) => latestMs ?? untilMs))

/** Gives back the time that a wait for a person took. */
export function postpone(deadlines: readonly Deadline[], byMs: number): void {
  for (const deadline of deadlines) {
    if (deadline.latestMs !== undefined) deadline.untilMs = Math.min(deadline.untilMs + byMs, deadline.latestMs)
  }
}

export const timedOut = ({ what, field }: Deadline): AppError =>
  new AppError('ERR_EXECUTION_TIMEOUT', `The time limit for ${what} has passed. Raise ${field}, or reduce the work.`, {
    field,
  })

/** The deadline of an execution: its own, or the earlier one of its state, judge or handler. */
export function wholeTime({ startedAtMs }: Pick<Run, 'startedAtMs'>, { manifest, untilMs }: ExecutionInput): Deadline {
  const own: Deadline = {
    untilMs: startedAtMs + manifest.resources.timeoutMs,
    what: 'the whole execution',
    field: 'spec.security.resources.timeout',
    latestMs: untilMs ?? Number.POSITIVE_INFINITY,
  }
  if (untilMs === null || untilMs >= own.untilMs) return own
  return {
    untilMs,
    what: 'this part of another run',
    field: 'the timeout of the state, validator or handler that started it',
  }
}

export function requireTime(steps: Steps, ...deadlines: readonly Deadline[]): void {
  for (const deadline of deadlines) if (steps.nowMs() >= deadline.untilMs) throw timedOut(deadline)
}

/** Runs `work` with a signal that aborts when the run is stopped or the first deadline passes. */
export async function within<T>(
  clock: Clock,
  steps: Steps,
  deadlines: readonly Deadline[],
  work: (signal: AbortSignal, leftMs: number) => Promise<T>,
): Promise<T> {
  const first = deadlines.reduce((a, b) => (b.untilMs < a.untilMs ? b : a))
  const leftMs = Math.max(0, Math.min(first.untilMs - clock.nowMs(), TIMER_MS_MAX))
  const late = new AbortController()
  // A timer may fire a moment early, when the deadline has not passed by the clock.
  const timer = setTimeout(() => late.abort(timedOut(first)), Math.min(leftMs + 1, TIMER_MS_MAX))
  try {
    return await work(AbortSignal.any([steps.signal, late.signal]), leftMs)
  } catch (error) {
    if (late.signal.aborted && !steps.signal.aborted) throw timedOut(first)
    throw error
  } finally {
    clearTimeout(timer)
  }
}
