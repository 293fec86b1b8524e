import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import { displayedAnswer } from './displayed-answer.ts'
import { jsonRpcCodes } from './json-rpc.ts'
import { hasStructuredContent } from './server-facts.ts'
import type { CallOutcome } from './wire.ts'

/**
 * How the protocol states an answer.
 * 1. Calling a tool that does not exist is a protocol error (invalid params), in every revision. A tool that exists and
 *    reports a missing tool of its own, as `run_tool` does, is an ordinary failed call.
 * 2. A failed call carries its envelope both as text and as structured content. Clients check structured content
 *    against the listed output schema, failed or not, so every listed schema also admits the envelope.
 * 3. Revisions without structured content get none, and their lists have no output schemas.
 * 4. The answer of another server is forwarded unchanged: its blocks, its structured content if it has one, its
 *    `_meta`.
 */
export function callOutcome(caller: ToolCaller, answer: ToolAnswer, revision: string | undefined): CallOutcome {
  if (answer.isUnknownTool === true && answer.failure !== undefined) {
    const { code, message, details } = answer.failure
    return { kind: 'error', code: jsonRpcCodes.invalidParams, message, data: { code, ...details } }
  }
  const structured = hasStructuredContent(revision) && answer.structured !== false
  const isError = answer.isError || answer.statesError === true
  return { kind: 'result', displayed: displayedAnswer(answer, caller.transport), isError, structured }
}
