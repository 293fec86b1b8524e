import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { intentStates } from './ports.ts'
import { createVisitCounter } from './visit-counter.ts'

describe('turns', () => {
  it('end whatever the order, and never let a state in a fourth time', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...intentStates), { maxLength: 60 }), (order) => {
        const turns = createVisitCounter()
        const entered = new Map<string, number>()
        for (const state of order) {
          const turn = turns.enter(state)
          if ('refused' in turn) continue
          entered.set(state, (entered.get(state) ?? 0) + 1)
          expect(turn.visit).toBe(entered.get(state))
        }
        const counts = [...entered.values()]
        expect(Math.max(0, ...counts)).toBeLessThanOrEqual(3)
        expect(turns.transitions()).toBe(counts.reduce((sum, count) => sum + count, 0))
        expect(turns.transitions()).toBeLessThanOrEqual(20)
      }),
    )
  })
})
