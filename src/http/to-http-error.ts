import { AppError } from '../contract/app-error.ts'
import { errorCodes } from '../contract/error-codes.ts'
import { errorEnvelope } from '../contract/error-envelope.ts'
import type { Logger } from '../kernel/logger.ts'
import { type Random, randomId } from '../kernel/random.ts'
import type { ToolFailure } from '../tools/runtime/tool-host.ts'

/** The one translation from errors to HTTP. A foreign error is our bug: it is logged, and shown as a reference. */
export type HttpError = Readonly<{ status: number; headers: Readonly<Record<string, string>>; json: string }>

const RETRY_AFTER_SECONDS_DEFAULT = 5

export type HttpErrorDeps = Readonly<{ logger: Logger; random: Random }>

export function toHttpError(error: unknown, deps: HttpErrorDeps): HttpError {
  if (error instanceof AppError) return failureToHttp(error)
  const reference = randomId(deps.random, 'ref')
  deps.logger.error('HTTP request failed with an internal error', {
    reference,
    cause: error instanceof Error ? (error.stack ?? error.message) : String(error),
  })
  return failureToHttp({
    code: 'ERR_INTERNAL',
    message: `Something failed inside Castellan. Give the operator this reference: ${reference}.`,
    details: { reference },
  })
}

export function failureToHttp(failure: ToolFailure): HttpError {
  const status: number = errorCodes[failure.code].httpStatus
  return { status, headers: headersOf(status, failure.details), json: JSON.stringify(errorEnvelope(failure)) }
}

/** The address was made from a checked Host or the public URL, so it is safe in quotes. */
const challengeOf = (metadata: unknown): string =>
  typeof metadata === 'string'
    ? `Bearer realm="castellan", resource_metadata="${metadata}"`
    : 'Bearer realm="castellan"'

function headersOf(status: number, details: ToolFailure['details']): Record<string, string> {
  if (status === 401) return { 'www-authenticate': challengeOf(details['resource_metadata']) }
  if (status !== 429 && status !== 503) return {}
  const afterMs = details['retry_after_ms']
  const seconds = typeof afterMs === 'number' ? Math.max(1, Math.ceil(afterMs / 1000)) : RETRY_AFTER_SECONDS_DEFAULT
  return { 'retry-after': String(seconds) }
}
