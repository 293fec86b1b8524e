import { limits } from '../../contract/limits.ts'
import type { SignalActor } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { acceptedAnswers } from './answers.ts'
import type { HumanState } from './manifest-schema.ts'
import type { Outcome, Visit } from './run-ports.ts'
import { expireWorkspace, workspaceExpiry } from './run-workspace.ts'
import { createStateTexts } from './state-texts.ts'

/** Waits for a person, possibly for days. Meanwhile the run exists only in the store. */
export async function runHuman(visit: Visit<HumanState>): Promise<Outcome> {
  const { state, steps, context, key, position, deps } = visit
  const prompt = createStateTexts(visit)('prompt', state.prompt, context)
  const timeoutMs = state.timeoutMs ?? limits.workflowHumanTimeoutMs
  const question = await steps.once<{ prompt: string; until_ms: number } & JsonObject & Json>(
    key('asked'),
    async () => ({ result: { state: position.state, prompt, until_ms: deps.clock.nowMs() + timeoutMs } }),
    { type: 'human_input_requested' },
  )
  const answer = await waitFor(visit, question.until_ms, {
    state: position.state,
    prompt: question.prompt,
    default_response: state.defaultResponse,
    accepted_answers: acceptedAnswers(state),
    until_ms: question.until_ms,
  })
  if (answer.kind === 'signal')
    return { result: { status: 'completed', ...readSignal(answer.payload, answer.actor), timeout: false } }
  if (state.defaultResponse !== null) {
    return { result: { status: 'completed', response: state.defaultResponse, timeout: true } }
  }
  const seconds = Math.round(timeoutMs / 1000)
  return {
    result: {
      status: 'failed',
      response: null,
      timeout: true,
      error: `nobody answered within ${seconds} s, and there is no default_response`,
    },
  }
}

/** Removes the workspace while waiting, if its time to live ends first. */
async function waitFor(visit: Visit<HumanState>, untilMs: number, details: JsonObject & Json) {
  const { steps, key } = visit
  const expiresAtMs = workspaceExpiry(visit)
  if (expiresAtMs !== null && expiresAtMs < untilMs) {
    const early = await steps.wait(key('answer-early'), { untilMs: expiresAtMs, details })
    if (early.kind === 'signal') return early
    await expireWorkspace(visit)
  }
  return await steps.wait(key('answer'), { untilMs, details })
}

/** Plain text, or `{response, feedback, by}`. `by` is the person that the answer names, `actor` the caller that gave it. */
export function readSignal(payload: Json, actor?: SignalActor): JsonObject {
  const known: JsonObject = actor === undefined ? {} : { by: actor.name, actor: { ...actor } }
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    return { response: typeof payload === 'string' ? payload : JSON.stringify(payload), ...known }
  }
  const { response, feedback, by } = payload as JsonObject
  return {
    response: typeof response === 'string' ? response : JSON.stringify(response ?? payload),
    ...(feedback !== undefined && feedback !== null && { feedback }),
    ...known,
    ...(typeof by === 'string' && by.trim() !== '' && { by }),
  }
}
