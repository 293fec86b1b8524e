import { type CallToolResult, type ContentBlock, ProtocolError } from '@modelcontextprotocol/server'
import type { CallingClient } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Counted } from '../tools/runtime/in-flight-calls.ts'
import type { CallDuration, ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import { callOutcome } from './call-outcome.ts'
import type { StartCall } from './start-call.ts'
import type { TaskHandle } from './task-store.ts'
import type { CallOutcome } from './wire.ts'

type TaskCall = Readonly<{
  name: string
  args: Readonly<Record<string, unknown>>
  duration: CallDuration
  /** The client that answers questions of a server. */
  client: CallingClient | undefined
  revision: string | undefined
}>
type Deps = Readonly<{ startCall: StartCall; clock: Clock }>

/** A call as the work of a task. Its progress is the status of the task. */
export async function callInTask(
  deps: Deps,
  calls: Counted | undefined,
  caller: ToolCaller,
  request: TaskCall,
  handle: TaskHandle,
): Promise<CallToolResult> {
  const once = (args: unknown) => callOnce(deps.startCall, calls, caller, { ...request, args }, handle)
  const answer = request.duration === 'waits' ? await callAgain(deps, request, handle, once) : await once(request.args)
  const outcome = callOutcome(caller, answer, request.revision)
  if (outcome.kind === 'error') throw new ProtocolError(outcome.code, outcome.message, outcome.data)
  return resultObject(outcome)
}

/**
 * One call never waits longer than clients do, but a task has the whole requested time. So the call is repeated while its answer
 * says to call again.
 */
async function callAgain(
  deps: Deps,
  request: TaskCall,
  handle: TaskHandle,
  once: (args: unknown) => Promise<ToolAnswer>,
): Promise<ToolAnswer> {
  const timeoutSeconds = request.args['timeout_seconds']
  const seconds = typeof timeoutSeconds === 'number' ? timeoutSeconds : limits.waitSecondsDefault
  const untilMs = deps.clock.nowMs() + seconds * 1000
  for (;;) {
    const leftSeconds = Math.max(1, Math.ceil((untilMs - deps.clock.nowMs()) / 1000))
    const args = { ...request.args, timeout_seconds: Math.min(seconds, leftSeconds) }
    const answer = await once(args)
    const isOver = answer.isError || handle.signal.aborted || deps.clock.nowMs() >= untilMs
    if (isOver || !saysCallAgain(answer)) return answer
  }
}

function callOnce(
  startCall: StartCall,
  calls: Counted | undefined,
  caller: ToolCaller,
  { name, args, client }: Readonly<{ name: string; args: unknown; client: CallingClient | undefined }>,
  { signal, say }: TaskHandle,
): Promise<ToolAnswer> {
  return new Promise((resolve) => {
    const progress = ({ message }: { message?: string }): void => {
      if (message !== undefined) say(message)
    }
    const call = startCall(calls, caller, name, args, progress, resolve, client)
    if (call === undefined) return
    signal.addEventListener('abort', () => call.cancel(signal.reason), { once: true })
    if (signal.aborted) call.cancel(signal.reason)
  })
}

/** `timed_out` with a status that is not final: the tool's own limit was reached, not the caller's. */
function saysCallAgain({ output }: ToolAnswer): boolean {
  const { timed_out, status } = (output ?? {}) as { timed_out?: unknown; status?: unknown }
  return timed_out === true && status !== 'completed' && status !== 'failed' && status !== 'cancelled'
}

export function resultObject({ displayed, isError, structured }: CallOutcome & { kind: 'result' }): CallToolResult {
  return {
    content: (displayed.content as ContentBlock[] | undefined) ?? [{ type: 'text', text: displayed.json }],
    ...(structured ? { structuredContent: JSON.parse(displayed.json) as Record<string, unknown> } : {}),
    ...(isError ? { isError: true } : {}),
    ...(displayed.meta === undefined ? {} : { _meta: displayed.meta }),
  }
}
