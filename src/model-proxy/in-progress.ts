import type { InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import type { Caller } from './ports.ts'
import { shuttingDown, tooManyRequests } from './proxy-errors.ts'

/**
 * Work before a request is sent that may wait: for a judgement, or for what others have reserved. If it does, the request is one in
 * progress: it ends with its key, and with the server.
 */
export function inProgress<T>(
  inFlight: InFlightCalls,
  caller: Caller,
  left: () => AbortSignal,
  work: (ended: () => AbortSignal) => T | Promise<T>,
): T | Promise<T> {
  let made: AbortController | undefined
  const waiting = (): AbortController => (made ??= new AbortController())
  const done = work(() => AbortSignal.any([left(), waiting().signal]))
  if (!(done instanceof Promise)) return done
  const call = inFlight.begin(
    () => waiting().abort(shuttingDown()),
    'call',
    (reason) => waiting().abort(reason),
  )
  if (!call.admit(caller.principal)) waiting().abort(tooManyRequests())
  return done.finally(() => call.end())
}
