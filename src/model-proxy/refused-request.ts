import { AppError } from '../contract/app-error.ts'
import type { ExchangeInput } from './exchange.ts'
import type { FinishedRequest } from './ports.ts'
import { requestFacts } from './request-facts.ts'

/** A request that was not sent because of a limit. Undefined for any other error, which does not concern a model. */
export function refusedRequest(input: ExchangeInput, error: unknown, durationMs: number): FinishedRequest | undefined {
  if (!(error instanceof AppError) || error.code !== 'ERR_LIMIT_EXCEEDED') return undefined
  const limit = error.details['limit_id']
  return {
    ...requestFacts(input),
    usedModel: null,
    status: 'refused',
    httpStatus: 0,
    errorCode: error.code,
    tokens: undefined,
    costMicrodollars: null,
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
