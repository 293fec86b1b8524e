import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { consensusOf, consensusStrategies, type WeighedVerdict } from './consensus.ts'

const verdict = (score: number, confidence: number, weight: number): WeighedVerdict => ({
  score,
  confidence,
  weight,
  judge: 'j',
  reasoning: '',
  signals: [],
})
const three = [verdict(0.9, 0.8, 2), verdict(0.6, 0.9, 1), verdict(0.75, 0.5, 1)]

describe('consensus', () => {
  it('weighs scores, and is surer the closer they are', () => {
    const { score, confidence, metadata } = consensusOf('weighted_average', three)
    expect(score).toBeCloseTo(0.7875, 4)
    expect(confidence).toBeCloseTo(0.883, 4)
    expect(metadata['variance']).toBeCloseTo(0.015, 4)
  })

  it('counts votes', () => {
    const { score, confidence, metadata } = consensusOf('majority', three)
    expect([score, metadata['pass_votes'], metadata['fail_votes']]).toEqual([1, 2, 1])
    expect(confidence).toBeCloseTo(0.4533, 4)
    expect(consensusOf('majority', three.slice(0, 2)).score).toBe(0.5)
    expect(consensusOf('majority', three.slice(1, 2)).score).toBe(0)
  })

  it('needs all, if it must be unanimous', () => {
    expect(consensusOf('unanimous', three)).toMatchObject({ score: 0, confidence: 0.5, metadata: { all_pass: false } })
    expect(consensusOf('unanimous', three, { threshold: 0.6 }).score).toBeCloseTo(0.75, 4)
  })

  it('takes the best of those who are sure', () => {
    const { score, confidence, metadata } = consensusOf('best_of_n', three, { n: 2 })
    expect(score).toBeCloseTo(0.8, 4)
    expect(confidence).toBeCloseTo(0.85, 4)
    expect(metadata).toEqual({ n: 2, total_judges: 3 })
    expect(() => consensusOf('best_of_n', three, { n: 0 })).toThrow(RangeError)
  })

  it('is exactly the score on which all agree, so that one at a threshold counts as such', () => {
    expect(consensusOf('best_of_n', three, { n: 2 }).score).toBe(0.8)
    const hundredths = fc.integer({ min: 0, max: 100 }).map((score) => score / 100)
    const weights = fc.array(
      fc.integer({ min: 1, max: 50 }).map((weight) => weight / 10),
      { minLength: 1, maxLength: 9 },
    )
    fc.assert(
      fc.property(hundredths, weights, (score, all) => {
        const verdicts = all.map((weight) => verdict(score, 1, weight))
        for (const strategy of ['weighted_average', 'unanimous', 'best_of_n'] as const)
          expect(consensusOf(strategy, verdicts, { threshold: 0 }).score).toBe(score)
      }),
    )
  })

  it('is never outside of 0 to 1, and one judge alone has its way', () => {
    const unit = fc.double({ min: 0, max: 1, noNaN: true })
    const one = fc.tuple(unit, unit, fc.integer({ min: 0, max: 9 })).map(([s, c, w]) => verdict(s, c, w))
    fc.assert(
      fc.property(
        fc.constantFrom(...consensusStrategies),
        fc.array(one, { minLength: 1, maxLength: 8 }),
        (strategy, all) => {
          const { score, confidence } = consensusOf(strategy, all)
          for (const value of [score, confidence]) {
            expect(value).toBeGreaterThanOrEqual(-1e-9)
            expect(value).toBeLessThanOrEqual(1 + 1e-9)
          }
          if (strategy === 'weighted_average') {
            expect(consensusOf(strategy, [all[0]!]).score).toBeCloseTo(all[0]!.score, 9)
          }
        },
      ),
    )
  })
})
