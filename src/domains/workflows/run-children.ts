import { AppError } from '../../contract/app-error.ts'
import type { NewRun, RunOutcome } from '../../engine/ports.ts'
import { toRunError } from '../../engine/run-error.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { type Clock, TIMER_MS_MAX } from '../../kernel/clock.ts'
import { parsedJson } from './render-output.ts'
import type { AgentRequest, Visit } from './run-ports.ts'

export type ChildEnd = RunOutcome & Readonly<{ timedOut: boolean }>

const nothing: NewRun = { kind: 'execution', subjectId: '', subjectName: '', subjectVersion: '', input: null }

/**
 * Runs a child run, with an optional time limit. `prepare` is called only if the child has not started yet, so an agent that was
 * removed meanwhile does not matter after a restart.
 */
export async function runChild(
  visit: Visit,
  step: string,
  prepare: () => Promise<NewRun>,
  timeoutMs: number | null,
): Promise<ChildEnd> {
  const { steps, deps, run } = visit
  const key = visit.key(step)
  const isStarted = steps.recorded(key) !== undefined || steps.recorded(`${key}~child`) !== undefined
  const start = isStarted ? nothing : await prepare()
  if (timeoutMs === null) return { ...(await steps.child(key, start)), timedOut: false }
  const opened = await steps.once<{ until_ms: number } & Json>(`${key}~limit`, async () => ({
    result: { until_ms: deps.clock.nowMs() + timeoutMs },
  }))
  const id = childId(steps.recorded(`${key}~child`)) ?? start.id ?? deps.newId()
  const cancel = (): void => {
    const child = childId(steps.recorded(`${key}~child`)) ?? id
    void deps.cancelRun(run.tenant, run.principal, child).catch(() => {})
  }
  const disarm = cancelAt(deps.clock, opened.until_ms, cancel)
  try {
    const outcome = await steps.child(key, { ...start, id })
    return { ...outcome, timedOut: outcome.status === 'cancelled' && steps.nowMs() >= opened.until_ms }
  } finally {
    disarm()
  }
}

/** A Node timer fires at once if its delay exceeds 2^31 ms, so a long delay is split. */
function cancelAt(clock: Clock, untilMs: number, cancel: () => void): () => void {
  let timer: NodeJS.Timeout
  const arm = (): void => {
    const leftMs = Math.max(0, untilMs - clock.nowMs())
    timer = setTimeout(leftMs > TIMER_MS_MAX ? arm : cancel, Math.min(leftMs, TIMER_MS_MAX))
  }
  arm()
  return () => clearTimeout(timer)
}

const childId = (link: Json | undefined): string | undefined =>
  link === undefined ? undefined : String((link as { run_id: Json }).run_id)

/** Runs an agent as a child. Its own program enforces the time limit. */
export async function runChildAgent(visit: Visit, step: string, request: AgentRequest): Promise<ChildEnd> {
  const end = await runChild(visit, step, () => visit.deps.agents.prepare(visit.run.principal, request), null)
  return { ...end, timedOut: end.error?.code === 'ERR_EXECUTION_TIMEOUT' }
}

/** Why a child run did not succeed. */
export function reasonOf({ status, error, timedOut }: ChildEnd): string {
  if (error === null) return timedOut ? 'its time ran out' : `it was ${status}`
  return `${error.code}: ${error.message}`
}

/** Turns an AppError before the start into an end like any other. Other errors end the run. */
export async function endOf(work: Promise<ChildEnd>): Promise<ChildEnd> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
    return { id: '', status: 'failed', output: null, error: toRunError(error), timedOut: false }
  }
}

/** The output of an agent, without the code fence that models put around JSON, and parsed if it is JSON. */
export function readOutput(output: Json): Json {
  const text = typeof output === 'string' ? output.trim() : undefined
  if (text === undefined) return output
  const bounded = /^```[\w-]*[^\S\n]*\n([\s\S]*?)\n?```$/.exec(text)
  const bare = (bounded?.[1] ?? text).trim()
  const parsed = /^[[{"\d-]|^(true|false|null)$/.test(bare) ? parsedJson(bare) : undefined
  return parsed === undefined ? (bounded === null ? (output as string) : bare) : parsed
}
