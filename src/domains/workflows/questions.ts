import { APPROVAL_WAIT } from '../../contract/approvals.ts'
import { limits } from '../../contract/limits.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { type Engine, isEnded, type Run, type SignalActor } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import { readSignal } from './run-human.ts'

type WaitPayload = Readonly<{
  step?: string
  details?: Readonly<{
    state?: string
    prompt?: string
    default_response?: string | null
    accepted_answers?: readonly string[] | null
    until_ms?: number
  }>
}>
type Reading = Pick<Engine, 'events' | 'find'>

/** How many journal events from the end to search for the question: a waiting run writes nothing else. */
const LOOKED_AT = 20
const LEVELS_MAX = 4
/** The length of the displayed prompt. `waiting_for` holds all of it. */
const PROMPT_CHARS_MAX = 2_000

/** The question that a run asks a person, from its journal. */
export async function questionOf(engine: Reading, read: ReadTx, run: Run) {
  const events = await lastEvents(engine, read, run)
  const began = events.findLast(({ type, payload }) => type === 'wait_began' && stepOf(payload) === run.waitingFor)
  const { details } = (began?.payload ?? {}) as WaitPayload
  const untilMs = details?.until_ms ?? run.wakeAtMs
  return {
    execution_id: run.id,
    state: details?.state ?? run.state,
    prompt: details?.prompt ?? null,
    default_response: details?.default_response ?? null,
    accepted_answers: details?.accepted_answers ?? null,
    requested_at: isoTime(began?.atMs ?? run.changedAtMs),
    expires_at: untilMs === null ? null : isoTime(untilMs),
  }
}

/** The questions of a run that have an answer, or whose time is over, newest first. Only the end of a long journal is read. */
export async function answeredQuestions(engine: Reading, read: ReadTx, run: Run) {
  const limit = limits.answeredLookedAtMax
  const { events } = await engine.events(read, run, { limit, offset: Math.max(0, run.lastSequence - limit) })
  const found = events.flatMap((began) => {
    const { step, details } = (began.payload ?? {}) as WaitPayload
    if (began.type !== 'wait_began' || step === undefined || details?.prompt === undefined) return []
    const end = events.find(({ key, sequence }) => key === step && sequence > began.sequence)
    const isAnswer = end?.type === 'signal_received'
    // A wait that ended early for its workspace goes on as another.
    if (end === undefined || !(isAnswer || step.endsWith('/answer'))) return []
    const { payload = null, actor } = (end.payload ?? {}) as Readonly<{ payload?: Json; actor?: SignalActor }>
    const answer = isAnswer ? readSignal(payload, actor) : { response: details.default_response ?? null }
    return {
      execution_id: run.id,
      state: details.state ?? began.state,
      prompt: details.prompt,
      default_response: details.default_response ?? null,
      accepted_answers: details.accepted_answers ?? null,
      requested_at: isoTime(began.atMs),
      expires_at: details.until_ms === undefined ? null : isoTime(details.until_ms),
      status: isAnswer ? ('answered' as const) : ('expired' as const),
      answered_by: typeof answer['by'] === 'string' ? answer['by'] : null,
      answered_at: isAnswer ? isoTime(end.atMs) : null,
      note:
        typeof answer['response'] === 'string' ? answer['response'].slice(0, PROMPT_CHARS_MAX).toWellFormed() : null,
    }
  })
  return found.reverse()
}

/** The question that a run waits for, its own or that of a child workflow, and how to answer it; null if there is none. */
export async function waitingFor(engine: Reading, read: ReadTx, run: Run) {
  const asking = await askingRun(engine, read, run, LEVELS_MAX)
  if (asking === undefined) return null
  const question = await questionOf(engine, read, asking)
  const approval = asking.waitingFor?.startsWith(APPROVAL_WAIT) && asking.waitingFor.slice(APPROVAL_WAIT.length)
  if (approval) {
    return {
      ...question,
      answer_with: {
        tool: 'approval_answer' as const,
        arguments: { id: approval, decision: 'approve' },
        http: `POST /v1/approvals/${approval}/approve`,
      },
    }
  }
  return {
    ...question,
    answer_with: {
      tool: 'aegis.workflow.signal' as const,
      arguments: { execution_id: asking.id, response: '<answer>' },
      http: `POST /v1/workflows/executions/${asking.id}/signal`,
    },
  }
}

/** The question as text, with instructions on how to answer it. */
export function questionText({
  execution_id: id,
  state,
  prompt,
  accepted_answers: answers,
  answer_with: { arguments: how },
}: NonNullable<Awaited<ReturnType<typeof waitingFor>>>): string {
  const displayed = (prompt ?? '').slice(0, PROMPT_CHARS_MAX).toWellFormed()
  if ('id' in how) {
    return `waits for an approval in state ${state ?? 'none yet'}, run ${id}: ${displayed}
Answer with: castellan approvals approve ${how.id}`
  }
  // Each answer is a command of its own: a shell would run what follows a |.
  const commands = (answers?.map((answer) => shellWord(answer.slice(0, 64))) ?? ['ANSWER']).map(
    (answer) => `castellan call aegis.workflow.signal execution_id=${id} response=${answer}`,
  )
  const ways = commands.length === 1 ? `Answer with: ${commands[0]}` : `Answer with one of:\n${commands.join('\n')}`
  return `waits for the answer of a person in state ${state ?? 'none yet'}, run ${id}: ${displayed}\n${ways}`
}

async function askingRun(engine: Reading, read: ReadTx, run: Run, levels: number): Promise<Run | undefined> {
  if (run.kind !== 'workflow' || isEnded(run)) return undefined
  if (run.waitingFor !== null) return run
  // While a run waits for a child, the start of the child is its last event.
  const last = (await lastEvents(engine, read, run)).at(-1)
  const { run_id: id } = (last?.payload ?? {}) as { run_id?: unknown }
  if (last?.type !== 'subworkflow_triggered' || typeof id !== 'string' || levels === 0) return undefined
  const below = await engine.find(read, run.tenant, id)
  return below && (await askingRun(engine, read, below, levels - 1))
}

const lastEvents = async (engine: Reading, read: ReadTx, run: Run) =>
  (await engine.events(read, run, { limit: LOOKED_AT, offset: Math.max(0, run.lastSequence - LOOKED_AT) })).events

const stepOf = (payload: unknown): string | undefined => (payload as WaitPayload | null)?.step
