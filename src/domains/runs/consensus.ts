/** The verdict of one judge, or of several together. */
export type Signal = Readonly<{ category: string; score: number; message: string }>
export type Verdict = Readonly<{ score: number; confidence: number; reasoning: string; signals: readonly Signal[] }>
export type WeighedVerdict = Verdict & Readonly<{ judge: string; weight: number }>
export type Grade = Verdict & Readonly<{ metadata: Readonly<Record<string, number | boolean | string>> }>

export const consensusStrategies = ['weighted_average', 'majority', 'unanimous', 'best_of_n'] as const
type ConsensusStrategy = (typeof consensusStrategies)[number]
type ConsensusOptions = Readonly<{
  /** For majority and unanimous: the score at which a judge counts as in favour. */
  threshold?: number
  /** For best_of_n: how many of the best count; by default all. */
  n?: number
  /** For weighted_average: the weight of agreement and of the judges' confidence. */
  agreementFactor?: number
  confidenceFactor?: number
}>

const THRESHOLD = 0.7
const AGREEMENT = 0.7
const CONFIDENCE = 0.3
/** The largest possible variance of scores. */
const VARIANCE_MAX = 0.25

/** Combines verdicts into one. There must be at least one. */
export function consensusOf(
  strategy: ConsensusStrategy,
  verdicts: readonly WeighedVerdict[],
  options: ConsensusOptions = {},
): Grade {
  if (verdicts.length === 0) throw new RangeError('no verdict to agree on')
  const graded = strategies[strategy](verdicts, options)
  return {
    ...graded,
    score: withoutNoise(graded.score),
    confidence: withoutNoise(graded.confidence),
    reasoning: verdicts.map(({ judge, score, reasoning }) => `${judge} (${round(score)}): ${reasoning}`).join('\n'),
    signals: verdicts.flatMap(({ signals }) => signals),
  }
}

type Graded = Pick<Grade, 'score' | 'confidence' | 'metadata'>

const strategies: Readonly<
  Record<ConsensusStrategy, (verdicts: readonly WeighedVerdict[], options: ConsensusOptions) => Graded>
> = {
  weighted_average(verdicts, { agreementFactor = AGREEMENT, confidenceFactor = CONFIDENCE }) {
    const mean = averageOf(verdicts, ({ score }) => score)
    const variance = averageOf(verdicts, ({ score }) => (score - mean) ** 2)
    const agreement = 1 - Math.min(variance / VARIANCE_MAX, 1)
    const confidence = weightedOf(verdicts, (one) => one.confidence)
    return {
      score: weightedOf(verdicts, ({ score }) => score),
      confidence: agreementFactor * agreement + confidenceFactor * confidence,
      metadata: { variance },
    }
  },
  majority(verdicts, { threshold = THRESHOLD }) {
    const pass = verdicts.filter(({ score }) => score >= threshold).length
    const fail = verdicts.length - pass
    const mean = averageOf(verdicts, (one) => one.confidence)
    return {
      score: pass === fail ? 0.5 : pass > fail ? 1 : 0,
      confidence: AGREEMENT * (Math.abs(pass - fail) / verdicts.length) + CONFIDENCE * mean,
      metadata: { pass_votes: pass, fail_votes: fail, threshold },
    }
  },
  unanimous(verdicts, { threshold = THRESHOLD }) {
    const allPass = verdicts.every(({ score }) => score >= threshold)
    return {
      score: allPass ? averageOf(verdicts, ({ score }) => score) : 0,
      confidence: Math.min(...verdicts.map(({ confidence }) => confidence)),
      metadata: { all_pass: allPass, threshold },
    }
  },
  best_of_n(verdicts, { n = verdicts.length }) {
    if (n < 1) throw new RangeError('n must be 1 or more')
    const best = verdicts.toSorted((a, b) => b.score * b.confidence - a.score * a.confidence).slice(0, n)
    return {
      score: weightedOf(best, ({ score }) => score),
      confidence: averageOf(best, (one) => one.confidence),
      metadata: { n: best.length, total_judges: verdicts.length },
    }
  },
}

const averageOf = (verdicts: readonly WeighedVerdict[], value: (verdict: WeighedVerdict) => number): number =>
  verdicts.reduce((sum, verdict) => sum + value(verdict), 0) / verdicts.length

/** A weighted mean. If all weights are zero, they count as equal. */
function weightedOf(verdicts: readonly WeighedVerdict[], value: (verdict: WeighedVerdict) => number): number {
  const total = verdicts.reduce((sum, { weight }) => sum + weight, 0)
  if (total <= 0) return averageOf(verdicts, value)
  return verdicts.reduce((sum, verdict) => sum + value(verdict) * verdict.weight, 0) / total
}

/** Rounds off floating-point noise, which would put a score just below a threshold that it meets. */
const withoutNoise = (value: number): number => Number(value.toFixed(12))

const round = (score: number): number => Math.round(score * 1000) / 1000
