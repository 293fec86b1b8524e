import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { Upstream } from './ports.ts'
import { UpstreamTimeout } from './upstream/ports.ts'

export const notForwarded = ({ name, protocol: { operations } }: Upstream): AppError =>
  new AppError(
    'ERR_ROUTE_NOT_FOUND',
    `This address is not forwarded to '${name}'. It takes ${operations.join(', ')}, each below /v1/${name}/.`,
    { operations },
  )

export const bodyTooLarge = (): AppError =>
  new AppError('ERR_TOO_LARGE', `The body is larger than ${limits.modelRequestBytesMax} bytes.`, {
    bytes_max: limits.modelRequestBytesMax,
  })

export const shuttingDown = (): AppError =>
  new AppError('ERR_SHUTTING_DOWN', 'The server is shutting down. Send the request again after the restart.')

export const tooManyRequests = (): AppError =>
  new AppError(
    'ERR_BUSY',
    'Too many of your requests are in progress. Wait for some of them to finish, then send it again.',
    { retry_after_ms: 1_000 },
  )

export const notReadable = (provider: string): AppError =>
  new AppError(
    'ERR_MODEL_FAILED',
    `The answer of the provider '${provider}' is compressed or is not JSON, so its tool calls cannot be judged.`,
    {
      provider,
    },
  )

export const redirected = (provider: string): AppError =>
  new AppError(
    'ERR_MODEL_FAILED',
    `The provider '${provider}' redirects to another address, which is not followed. The operator can set the new address as its endpoint in models.providers.`,
    { provider },
  )

/** The codes of undici for time-outs. */
const tookTooLong: ReadonlySet<string> = new Set([
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_CONNECT_TIMEOUT',
])

export const isTimeout = (error: Error & { code?: string }): boolean =>
  error instanceof UpstreamTimeout || tookTooLong.has(error.code ?? '')

export function notAnswered(error: Error & { code?: string }, provider: string): AppError {
  if (error instanceof AppError) return error
  if (isTimeout(error)) {
    return new AppError('ERR_TIMED_OUT', `The provider '${provider}' did not answer in time.`, { provider })
  }
  const message = `The provider '${provider}' cannot be reached, or its answer broke off. The operator can check its endpoint in models.providers.`
  return new AppError('ERR_MODEL_FAILED', message, { provider }, { cause: error })
}
