import { availableParallelism } from 'node:os'
import { systemClock } from './clock.ts'

/**
 * Adaptive polling, as a hypervisor does before it halts a processor: while one client sends request after request and each is
 * answered at once, the event loop does not sleep in between. To wake a sleeping process takes longer than such a request.
 *
 * Each short wait earns credit, and each long one takes much of it. Without enough credit nothing is polled, so a client that thinks
 * between its requests, or a slow server behind, takes no processor. Two requests at once take all credit: then the processor
 * belongs to the programs that have work.
 */
export type BusyPoll = Readonly<{
  /** A request begins to be served. */
  started(): void
  /** A part of its answer was sent, and more is expected. */
  continued(): void
  /** Its answer is complete or will not come. Called once for each request that has started. */
  ended(): void
}>

/** The longest wait that is spent polling. */
const POLL_MS_MAX = 0.5
const CREDIT_NEEDED = 16
const CREDIT_MAX = 4 * CREDIT_NEEDED
const PRICE_OF_A_LONG_WAIT = CREDIT_NEEDED

type Deps = Readonly<{
  monotonicMs(): number
  /** Calls back in the next turn of the event loop, and keeps the loop from sleeping until then. */
  nextTurn(callback: () => void): void
  processors: number
}>

const ofNode = (): Deps => ({
  monotonicMs: systemClock.monotonicMs,
  nextTurn: (callback) => void setImmediate(callback),
  processors: availableParallelism(),
})

export function createBusyPoll({ monotonicMs, nextTurn, processors }: Deps = ofNode()): BusyPoll {
  // Who polls on the only processor keeps away what is waited for.
  const isPossible = processors > 1
  let serving = 0
  let credit = 0
  let lastMs = Number.NEGATIVE_INFINITY
  let isPolling = false

  function poll(): void {
    if (credit >= CREDIT_NEEDED && monotonicMs() - lastMs < POLL_MS_MAX) nextTurn(poll)
    else isPolling = false
  }

  /** Something happened that was waited for. */
  function active(): void {
    const nowMs = monotonicMs()
    const isShort = nowMs - lastMs <= POLL_MS_MAX
    lastMs = nowMs
    credit = isShort ? Math.min(credit + 1, CREDIT_MAX) : Math.max(credit - PRICE_OF_A_LONG_WAIT, 0)
    if (isPolling || !isPossible || credit < CREDIT_NEEDED) return
    isPolling = true
    nextTurn(poll)
  }

  return {
    started() {
      serving++
      if (serving === 1) active()
      else credit = 0
    },
    continued() {
      if (serving === 1) active()
    },
    ended() {
      serving--
      if (serving === 0) active()
    },
  }
}
