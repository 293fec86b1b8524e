import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import type { InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import { sendError } from './send.ts'
import { type HttpError, toHttpError } from './to-http-error.ts'

/**
 * Serves a request that makes calls: it is cancelled when its client disconnects and answered when the transport closes. Errors
 * of `work` are rendered by `render`. `admit` is called once the caller is known, and throws if the caller has too many calls.
 */
export type ServeCall = (
  exchange: Readonly<{ req: IncomingMessage; res: ServerResponse }>,
  work: (signal: AbortSignal, admit: (principal: Principal) => void) => Promise<void>,
  render?: (error: unknown) => HttpError,
  kind?: 'call' | 'stream',
) => Promise<void>

export function createServeCall(
  deps: Readonly<{ inFlight: InFlightCalls; logger: Logger; random: Random }>,
): ServeCall {
  return async ({ req, res }, work, render = (error) => toHttpError(error, deps), kind = 'call') => {
    const call = deps.inFlight.begin(() => sendError(req, res, render(shuttingDown())), kind)
    res.once('close', () => {
      if (!res.writableFinished) call.cancel(new AppError('ERR_CANCELLED', 'The client disconnected.'))
    })
    try {
      await work(call.signal, (principal) => {
        if (!call.admit(principal)) throw tooManyCalls()
      })
    } catch (error) {
      sendError(req, res, render(error))
    } finally {
      call.end()
    }
  }
}

export const tooManyCalls = (): AppError =>
  new AppError(
    'ERR_BUSY',
    'Too many of your calls are in progress. Wait for some of them to finish, then call again.',
    { retry_after_ms: 1_000 },
  )

export const shuttingDown = (): AppError =>
  new AppError('ERR_SHUTTING_DOWN', 'The server is shutting down. Connect again after the restart.', {
    retry_after_ms: limits.shutdownGraceMs,
  })
