import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { callerKey, type Principal } from '../contract/principal.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import { sendError } from './send.ts'
import { type HttpError, toHttpError } from './to-http-error.ts'

/**
 * Requests that are at work on calls: each is cancelled when its client goes away and answered when the door closes, and
 * nobody has more than so many at once.
 */
export type CallsUnderWay = Readonly<{
  /**
   * Runs `work` and answers what it throws, in the words of `render`. `admit` is called once it is known who calls, and
   * throws when that is too many.
   */
  serve(
    exchange: Readonly<{ req: IncomingMessage; res: ServerResponse }>,
    work: (signal: AbortSignal, admit: (principal: Principal) => void) => Promise<void>,
    render?: (error: unknown) => HttpError,
    kind?: 'call' | 'stream',
  ): Promise<void>
  /** Streams never end by themselves: they are ended first of all when the door closes. */
  endStreams(): void
  /** Cancels the calls under way and answers each with the error. */
  failAll(error: AppError): void
}>

export function createCallsUnderWay(deps: Readonly<{ logger: Logger; random: Random }>): CallsUnderWay {
  const failures = new Set<(error: AppError) => void>()
  const inFlight = new Map<string, number>()
  const streams = new Set<AbortController>()

  function enter(principal: Principal): () => void {
    const who = callerKey(principal)
    const count = inFlight.get(who) ?? 0
    if (count >= limits.callsInFlightPerConnectionMax) {
      throw new AppError('ERR_BUSY', 'Too many calls of yours are under way.', { retry_after_ms: 1_000 })
    }
    inFlight.set(who, count + 1)
    return () => {
      const left = inFlight.get(who)! - 1
      if (left === 0) inFlight.delete(who)
      else inFlight.set(who, left)
    }
  }

  return {
    async serve({ req, res }, work, render = (error) => toHttpError(error, deps), kind = 'call') {
      const cancel = new AbortController()
      const fail = (error: AppError): void => {
        sendError(req, res, render(error))
        cancel.abort(error)
      }
      const onClose = (): void => {
        if (!res.writableFinished) cancel.abort(new AppError('ERR_CANCELLED', 'The client disconnected.'))
      }
      let leave = (): void => {}
      res.once('close', onClose)
      failures.add(fail)
      if (kind === 'stream') streams.add(cancel)
      try {
        await work(cancel.signal, (principal) => {
          leave = enter(principal)
        })
      } catch (error) {
        sendError(req, res, render(error))
      } finally {
        failures.delete(fail)
        streams.delete(cancel)
        leave()
      }
    },
    endStreams() {
      for (const stream of streams) stream.abort()
    },
    failAll(error) {
      for (const fail of failures) fail(error)
    },
  }
}
