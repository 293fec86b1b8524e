/**
 * A noisy machine slows everyone for a while, so contenders take turns in short rounds (A B, B A, …) and what counts is the
 * median of the ratios of neighbouring rounds, never a ratio of two totals.
 */
import { type Connection, drive, type Measurement } from './client.ts'

export type Turn = Readonly<{ connection: Connection; body: (n: number) => string }>
export type Comparison = Readonly<{ ours: Measurement; peer: Measurement; ratio: number }>
export type Rounds = Readonly<{ inFlight: number; rounds: number; roundMs: number }>

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? Number.NaN)
    : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2
}

const middleOf = (measurements: readonly Measurement[]): Measurement => ({
  calls: measurements.reduce((sum, one) => sum + one.calls, 0),
  perSecond: median(measurements.map((one) => one.perSecond)),
  p50Ms: median(measurements.map((one) => one.p50Ms)),
  p99Ms: median(measurements.map((one) => one.p99Ms)),
  longestMs: Math.max(...measurements.map((one) => one.longestMs)),
})

/** Compares ours with each peer; the result has one comparison per peer, in order. */
export const interleave = async (ours: Turn, peers: readonly Turn[], plan: Rounds): Promise<Comparison[]> => {
  const turns = [ours, ...peers]
  const measured: Measurement[][] = turns.map(() => [])
  const issued = turns.map(() => ({ calls: 0 }))
  for (let round = 0; round < plan.rounds; round++) {
    const order = turns.map((_, index) => index)
    if (round % 2 === 1) order.reverse()
    for (const index of order) {
      const turn = turns[index] as Turn
      const counter = issued[index] as { calls: number }
      const result = await drive(turn.connection, {
        inFlight: plan.inFlight,
        callsMax: Number.POSITIVE_INFINITY,
        timeMaxMs: plan.roundMs,
        body: () => turn.body(counter.calls++),
      })
      measured[index]?.push(result)
    }
  }
  const [oursMeasured = [], ...peersMeasured] = measured
  return peersMeasured.map((peerMeasured) => ({
    ours: middleOf(oursMeasured),
    peer: middleOf(peerMeasured),
    ratio: median(oursMeasured.map((one, round) => one.perSecond / (peerMeasured[round]?.perSecond ?? Number.NaN))),
  }))
}
