/**
 * A noisy machine slows everyone for a while, so contenders take turns in short rounds (A B, B A, …) and what counts is the
 * median of the ratios of neighbouring rounds, never a ratio of two totals.
 */
import { type Connection, drive, type Measurement } from './client.ts'
import { msText } from './table.ts'

export type Turn = Readonly<{ connection: Connection; body: (n: number) => string }>
/** `spread` is the range in which the middle half of the rounds' ratios lies: wide means that the machine was busy. */
export type Comparison = Readonly<{
  ours: Measurement
  peer: Measurement
  ratio: number
  spread: readonly [number, number]
}>
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
  return peersMeasured.map((peerMeasured) => {
    const ratios = oursMeasured.map((one, round) => one.perSecond / (peerMeasured[round]?.perSecond ?? Number.NaN))
    const sorted = ratios.toSorted((a, b) => a - b)
    const at = (share: number): number => sorted[Math.round((sorted.length - 1) * share)] ?? Number.NaN
    const spread = [at(0.25), at(0.75)] as const
    return { ours: middleOf(oursMeasured), peer: middleOf(peerMeasured), ratio: median(ratios), spread }
  })
}

/** Spread of the ratio, and latencies of ours / the peer's, for the note of a row. */
export const comparisonNote = ({ ours, peer, spread }: Comparison): string =>
  `${spread[0].toFixed(2)}–${spread[1].toFixed(2)}; p50 ${msText(ours.p50Ms)} / ${msText(peer.p50Ms)}, p99 ${msText(ours.p99Ms)} / ${msText(peer.p99Ms)}`
