import fc from 'fast-check'
import { expect, it } from 'vitest'
import { SlotSet } from './slot-set.ts'

it('has what a Set has, whatever is added and removed', () => {
  const step = fc.record({ isAdded: fc.boolean(), index: fc.nat(9) })
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const items = Array.from({ length: 10 }, (_, index) => ({ index }))
      const [own, model] = [new SlotSet<{ index: number }>(), new Set<{ index: number }>()]
      for (const { isAdded, index } of steps) {
        const item = items[index]!
        if (isAdded) {
          own.add(item)
          model.add(item)
        } else expect(own.delete(item)).toBe(model.delete(item))
        expect(own.size).toBe(model.size)
      }
      expect(new Set(own)).toEqual(model)
    }),
  )
})

it('may change while it is read', () => {
  const items = [{}, {}, {}]
  const own = new SlotSet<object>()
  for (const item of items) own.add(item)
  const seen: object[] = []
  for (const item of own) {
    seen.push(item)
    own.delete(item)
  }
  expect(seen).toEqual(items)
  expect(own.size).toBe(0)
})
