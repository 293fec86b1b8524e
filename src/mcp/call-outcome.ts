import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import { displayedAnswer } from './displayed-answer.ts'
import { hasStructuredContent } from './server-facts.ts'
import type { ToolLists } from './tool-list.ts'
import { type CallOutcome, jsonRpcCodes } from './wire.ts'

/**
 * How the protocol states an answer.
 * 1. Calling a tool that does not exist is a protocol error (invalid params), in every revision. A tool that exists and
 *    reports a missing tool of its own, as `run_tool` does, is an ordinary failed call.
 * 2. A failed call carries its envelope both as text and as structured content. Clients check structured content against
 *    the listed output schema, failed or not, so every listed schema also admits the envelope.
 * 3. Revisions that have no structured content get none, and their lists no output schemas.
 */
export function callOutcome(
  lists: ToolLists,
  caller: ToolCaller,
  name: string,
  answer: ToolAnswer,
  revision: string | undefined,
): CallOutcome {
  if (answer.isError && answer.failure?.code === 'ERR_UNKNOWN_TOOL' && lists.find(caller, name) === undefined) {
    const { code, message, details } = answer.failure
    return { kind: 'error', code: jsonRpcCodes.invalidParams, message, data: { code, ...details } }
  }
  const structured = hasStructuredContent(revision)
  return { kind: 'result', displayed: displayedAnswer(answer, caller.door), isError: answer.isError, structured }
}
