import { AppError } from '../contract/app-error.ts'
import type { ExchangeInput } from './exchange-input.ts'
import type { FinishedRequest } from './ports.ts'
import { requestFacts } from './request-facts.ts'

/** A limit is reached, or requests in progress have reserved what is left of it. */
export const isOfLimit = ({ code, details }: AppError): boolean =>
  code === 'ERR_LIMIT_EXCEEDED' || (code === 'ERR_RATE_LIMITED' && details['limit_id'] !== undefined)

/** A request that was not sent because of a limit. Undefined for any other error, which does not concern a model. */
export function refusedRequest(input: ExchangeInput, error: unknown, durationMs: number): FinishedRequest | undefined {
  if (!(error instanceof AppError) || !isOfLimit(error)) return undefined
  const limit = error.details['limit_id']
  return {
    ...requestFacts(input),
    usedModel: null,
    status: 'refused',
    httpStatus: 0,
    errorCode: error.code,
    tokens: undefined,
    costNanodollars: null,
    isEstimated: false,
    durationMs,
    firstByteMs: null,
    decisions: [
      {
        stage: 'usage-limit',
        verdict: 'deny',
        ...(typeof limit === 'string' && { policy: limit }),
        reason: error.code,
      },
    ],
    answerBytes: 0,
    answerBody: undefined,
  }
}

/**
 * For programs that do not parse the body. What a limit refuses is not repeated until it may succeed: the packages of OpenAI and
 * Anthropic obey `x-should-retry`, whatever the status.
 */
export function refusalHeaders(error: AppError): Readonly<Record<string, string>> {
  const { code, details } = error
  const headers: Record<string, string> = {}
  const afterMs = details['retry_after_ms']
  if (typeof afterMs === 'number') headers['retry-after'] = String(Math.max(1, Math.ceil(afterMs / 1000)))
  if (!isOfLimit(error)) return headers
  if (code === 'ERR_LIMIT_EXCEEDED') headers['x-should-retry'] = 'false'
  for (const [header, name] of limitHeaders) {
    const value = details[name]
    if (typeof value === 'string' || typeof value === 'number') headers[header] = String(value)
  }
  return headers
}
const limitHeaders = [
  ['x-castellan-limit-id', 'limit_id'],
  ['x-castellan-limit-remaining', 'remaining'],
  ['x-castellan-limit-resets-at', 'resets_at'],
] as const
