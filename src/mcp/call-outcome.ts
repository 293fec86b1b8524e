import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import type { ToolLists } from './tool-list.ts'
import { type CallOutcome, jsonRpcCodes } from './wire.ts'

/**
 * How the protocol states an answer.
 * 1. Calling a tool that does not exist is a protocol error (invalid params), in every revision. A tool that exists and
 *    reports a missing tool of its own, as `run_tool` does, is an ordinary failed call.
 * 2. A failed call carries its envelope both as text and as structured content. Clients check structured content against
 *    the listed output schema, failed or not, so every listed schema also admits the envelope.
 */
export function callOutcome(lists: ToolLists, caller: ToolCaller, name: string, answer: ToolAnswer): CallOutcome {
  if (!answer.isError) return { kind: 'result', answer, structured: answer.structured }
  if (answer.failure?.code === 'ERR_UNKNOWN_TOOL' && lists.find(caller, name) === undefined) {
    const { code, message, details } = answer.failure
    return { kind: 'error', code: jsonRpcCodes.invalidParams, message, data: { code, ...details } }
  }
  return { kind: 'result', answer, structured: answer.structured }
}
