import type { AppError } from '../contract/app-error.ts'
import { plainJson } from '../kernel/plain-json.ts'
import type { RunError } from './ports.ts'

/** A failure as a run records it. */
export const toRunError = ({ code, message, details }: AppError): RunError => ({
  code,
  message: message.toWellFormed(),
  details: plainJson(details) as RunError['details'],
})
