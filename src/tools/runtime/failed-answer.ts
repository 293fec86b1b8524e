import { errorEnvelope } from '../../contract/error-envelope.ts'
import type { ToolAnswer, ToolFailure } from './tool-host.ts'

/** The answer of a call that failed. */
export function failedAnswer({ code, message, details }: ToolFailure): ToolAnswer & Readonly<{ failure: ToolFailure }> {
  const failure = { code, message, details }
  return { json: JSON.stringify(errorEnvelope(failure)), isError: true, failure }
}
