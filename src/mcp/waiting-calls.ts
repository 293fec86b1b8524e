import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/server'
import { limits } from '../contract/limits.ts'
import type { Clock } from '../kernel/clock.ts'
import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import type { CallDesk, ConnectionCalls } from './call-desk.ts'
import type { TaskHandle } from './task-book.ts'

/**
 * A call that waits, as the work of a task. One call never waits longer than clients do; a task has the whole time that
 * was asked for, so the call is made again while its answer says that this is to be done.
 */
export async function waitInTask(
  deps: Readonly<{ desk: CallDesk; clock: Clock }>,
  calls: ConnectionCalls,
  caller: ToolCaller,
  request: Readonly<{ name: string; args: Readonly<Record<string, unknown>> }>,
  handle: TaskHandle,
): Promise<CallToolResult> {
  const asked = request.args['timeout_seconds']
  const seconds = typeof asked === 'number' ? asked : limits.waitSecondsDefault
  const untilMs = deps.clock.nowMs() + seconds * 1000
  for (;;) {
    const leftSeconds = Math.max(1, Math.ceil((untilMs - deps.clock.nowMs()) / 1000))
    const args = { ...request.args, timeout_seconds: Math.min(seconds, leftSeconds) }
    const answer = await callOnce(deps.desk, calls, caller, request.name, args, handle)
    const isOver = answer.isError || handle.signal.aborted || deps.clock.nowMs() >= untilMs
    if (isOver || !saysCallAgain(answer)) return resultObject(answer, answer.structured)
  }
}

function callOnce(
  desk: CallDesk,
  calls: ConnectionCalls,
  caller: ToolCaller,
  name: string,
  args: unknown,
  { signal, say }: TaskHandle,
): Promise<ToolAnswer> {
  return new Promise((resolve) => {
    const progress = ({ message }: { message?: string }): void => {
      if (message !== undefined) say(message)
    }
    const call = desk.start(calls, caller, name, args, progress, resolve)
    if (call === undefined) return
    signal.addEventListener('abort', () => call.cancel(signal.reason), { once: true })
    if (signal.aborted) call.cancel(signal.reason)
  })
}

/** `timed_out` with a status that is no end: the tool's own limit was reached, not the caller's. */
function saysCallAgain({ json }: ToolAnswer): boolean {
  const { timed_out, status } = JSON.parse(json) as { timed_out?: unknown; status?: unknown }
  return timed_out === true && status !== 'completed' && status !== 'failed' && status !== 'cancelled'
}

export function resultObject(answer: ToolAnswer, structured: boolean): CallToolResult {
  return {
    content: (answer.content as ContentBlock[] | undefined) ?? [{ type: 'text', text: answer.json }],
    ...(structured ? { structuredContent: JSON.parse(answer.json) as Record<string, unknown> } : {}),
    ...(answer.isError ? { isError: true } : {}),
  }
}
