import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import type { ToolLists } from './tool-list.ts'
import { type CallOutcome, jsonRpcCodes } from './wire.ts'

/**
 * How the protocol states an answer.
 * 1. Calling a tool that does not exist is a protocol error (invalid params), in every revision. A tool that exists and
 *    reports a missing tool of its own, as `run_tool` does, is an ordinary failed call.
 * 2. A failed call carries its envelope as text always, and as structured content unless the tool listed an output schema:
 *    clients check structured content against that schema and would lose the error.
 */
export function callOutcome(lists: ToolLists, caller: ToolCaller, name: string, answer: ToolAnswer): CallOutcome {
  if (!answer.isError) return { kind: 'result', answer, structured: answer.structured }
  const listed = lists.find(caller, name)
  if (answer.failure?.code === 'ERR_UNKNOWN_TOOL' && listed === undefined) {
    const { code, message, details } = answer.failure
    return { kind: 'error', code: jsonRpcCodes.invalidParams, message, data: { code, ...details } }
  }
  return { kind: 'result', answer, structured: answer.structured && listed?.outputSchema === undefined }
}
