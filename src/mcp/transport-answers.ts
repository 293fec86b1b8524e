import type { ErrorDetails } from '../contract/app-error.ts'
import type { ErrorCode } from '../contract/error-codes.ts'
import { failedAnswer } from '../tools/runtime/failed-answer.ts'
import type { ToolAnswer } from '../tools/runtime/tool-host.ts'

/** The answers a transport gives by itself, in the envelope that every failed call has. */
const answer = (code: ErrorCode, message: string, details: ErrorDetails = {}): ToolAnswer =>
  failedAnswer({ code, message, details })

export const busyAnswer = (callsInFlightMax: number): ToolAnswer =>
  answer(
    'ERR_BUSY',
    `This connection already has ${callsInFlightMax} calls in progress. Wait for some of them to finish, then call again.`,
    { limit: callsInFlightMax },
  )

export const notStartedAnswer: ToolAnswer = answer(
  'ERR_SHUTTING_DOWN',
  'The server is shutting down and did not start this call. Connect again after the restart.',
  { started: false },
)

export const interruptedAnswer: ToolAnswer = answer(
  'ERR_SHUTTING_DOWN',
  'The server shut down while this call was in progress. After the restart, check whether it took effect, then call again.',
  { started: true },
)

export const brokenAnswer: ToolAnswer = answer('ERR_INTERNAL', 'The call failed inside the server.')
