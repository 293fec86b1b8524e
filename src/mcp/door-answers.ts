import type { ErrorDetails } from '../contract/app-error.ts'
import type { ErrorCode } from '../contract/error-codes.ts'
import type { ToolAnswer } from '../tools/runtime/tool-host.ts'

/** The answers a door gives by itself, in the envelope that every failed call has. */
export function failedAnswer(code: ErrorCode, message: string, details: ErrorDetails = {}): ToolAnswer {
  const failure = { code, message, details }
  return { json: JSON.stringify({ error: failure }), isError: true, failure }
}

export const busyAnswer = (callsInFlightMax: number): ToolAnswer =>
  failedAnswer(
    'ERR_BUSY',
    `This connection already has ${callsInFlightMax} calls under way. Wait for some of them to finish, then call again.`,
    { limit: callsInFlightMax },
  )

export const notStartedAnswer: ToolAnswer = failedAnswer(
  'ERR_SHUTTING_DOWN',
  'The server is shutting down and did not start this call. Connect again after the restart.',
  { started: false },
)

export const interruptedAnswer: ToolAnswer = failedAnswer(
  'ERR_SHUTTING_DOWN',
  'The server shut down while this call was under way. After the restart, check whether it took effect, then call again.',
  { started: true },
)

export const brokenAnswer: ToolAnswer = failedAnswer('ERR_INTERNAL', 'The call failed inside the server.')
