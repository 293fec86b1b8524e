import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Progress } from '../../contract/call.ts'
import { createReporter } from './call-view.ts'

describe('the progress of many steps', () => {
  it('only grows, ends with the last step, and never says that it is done before', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 5 }), { minLength: 1, maxLength: 20 }), (saidBefore) => {
        const updates: Progress[] = []
        const total = saidBefore.length
        const report = createReporter({ progress: (update) => updates.push(update) }, total, () => '')
        for (const count of saidBefore) {
          for (let index = 0; index < count; index++) report.say('between')
          report.step('step')
        }
        report.stop()
        const numbers = updates.map(({ progress }) => progress)
        expect(numbers.every((value, index) => index === 0 || value > numbers[index - 1]!)).toBe(true)
        expect(numbers.at(-1)).toBe(total)
        expect(numbers.slice(0, -1).every((value) => value < total)).toBe(true)
        expect(updates.every((update) => update.total === total)).toBe(true)
      }),
    )
  })
})
