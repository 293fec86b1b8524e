import type { ErrorDetails } from '../contract/app-error.ts'
import type { Progress } from '../contract/call.ts'
import type { CallingClient } from '../contract/calling-client.ts'
import type { ErrorCode } from '../contract/error-codes.ts'
import { limits } from '../contract/limits.ts'
import type { ContentRequest } from '../contract/upstream-content.ts'
import type { Logger } from '../kernel/logger.ts'
import { failedAnswer } from '../tools/runtime/failed-answer.ts'
import type { Counted, InFlightCall, InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import type { ToolAnswer, ToolCaller, ToolHost } from '../tools/runtime/tool-host.ts'

type CallSettled = (answer: ToolAnswer, call: InFlightCall | undefined) => void

/**
 * Every MCP tool call passes here, whichever transport carried it. `connection` is its counter; without one it is counted on the
 * caller.
 * 1. A started call settles exactly once: with the host's answer, or with ERR_SHUTTING_DOWN when the transport closes.
 * 2. A refused call (too many in flight, or closing) settles before this returns and has no handle.
 * 3. Cancelling only aborts the signal; the host still answers, and the transport decides whether that answer is sent.
 */
export type StartCall = (
  connection: Counted | undefined,
  caller: ToolCaller,
  name: string,
  args: unknown,
  progress: ((update: Progress) => void) | undefined,
  onSettled: CallSettled,
  client?: CallingClient,
  content?: ContentRequest,
) => InFlightCall | undefined

export function createStartCall(deps: { host: ToolHost; logger: Logger; inFlight: InFlightCalls }): StartCall {
  const { host, logger, inFlight } = deps
  const busy = busyAnswer(limits.callsInFlightPerConnectionMax)

  return (connection, caller, name, args, progress, onSettled, client, content) => {
    if (inFlight.closing) {
      onSettled(notStartedAnswer, undefined)
      return undefined
    }
    const settle = (answer: ToolAnswer): void => {
      if (call.end()) onSettled(answer, call)
    }
    const call = inFlight.begin(() => settle(interruptedAnswer))
    if (!call.admit(caller.principal, connection)) {
      call.end()
      onSettled(busy, undefined)
      return undefined
    }
    const { signal } = call
    const options = {
      signal,
      ...(progress !== undefined && { progress: whileIncreasing(call, progress) }),
      ...(client !== undefined && { client }),
      ...(content !== undefined && { content }),
    }
    host.call(caller, name, args, options).then(settle, (error: unknown) => {
      logger.error('the tool host rejected a call, which it must never do', { tool: name, error: String(error) })
      settle(brokenAnswer)
    })
    return call
  }
}

/** The protocol requires progress values to grow, and allows none after the answer. */
function whileIncreasing(call: InFlightCall, progress: (update: Progress) => void): (update: Progress) => void {
  let last = Number.NEGATIVE_INFINITY
  return (update) => {
    if (call.hasEnded() || call.isCancelled() || !(update.progress > last)) return
    last = update.progress
    progress(update)
  }
}

/** The transport's own answers, in the envelope of every failed call. */
const transportAnswer = (code: ErrorCode, message: string, details: ErrorDetails = {}): ToolAnswer =>
  failedAnswer({ code, message, details })

const busyAnswer = (callsInFlightMax: number): ToolAnswer =>
  transportAnswer(
    'ERR_BUSY',
    `This connection already has ${callsInFlightMax} calls in progress. Wait for some of them to finish, then call again.`,
    { limit: callsInFlightMax },
  )

const notStartedAnswer: ToolAnswer = transportAnswer(
  'ERR_SHUTTING_DOWN',
  'The server is shutting down and did not start this call. Connect again after the restart.',
  { started: false },
)

const interruptedAnswer: ToolAnswer = transportAnswer(
  'ERR_SHUTTING_DOWN',
  'The server shut down while this call was in progress. After the restart, check whether it took effect, then call again.',
  { started: true },
)

const brokenAnswer: ToolAnswer = transportAnswer('ERR_INTERNAL', 'The call failed inside the server.')
