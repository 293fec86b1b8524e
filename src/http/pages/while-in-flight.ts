import type { Principal } from '../../contract/principal.ts'
import type { InFlightCalls } from '../../tools/runtime/in-flight-calls.ts'
import { tooManyCalls } from '../serve-call.ts'

/** A call from a page is counted and cancelled like those of other transports. */
export async function whileInFlight<T>(
  inFlight: Pick<InFlightCalls, 'begin'>,
  principal: Principal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const call = inFlight.begin(() => {})
  try {
    if (!call.admit(principal)) throw tooManyCalls()
    return await work(call.signal)
  } finally {
    call.end()
  }
}
