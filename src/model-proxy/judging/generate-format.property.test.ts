import fc from 'fast-check'
import { expect, it } from 'vitest'
import { generateFormat } from './generate-format.ts'
import type { HistoryResult } from './ports.ts'

type Named = Readonly<{ id?: string; name?: string }>
const results = (contents: readonly object[]): readonly HistoryResult[] => generateFormat.results({ contents })
const asked = (call: Named) => ({ role: 'model', parts: [{ functionCall: { ...call, args: {} } }] })
const answered = (result: Named) => ({ role: 'user', parts: [{ functionResponse: { ...result, response: {} } }] })

const named = fc.record({ id: fc.constantFrom('1', '2', '3'), name: fc.constantFrom('a', 'b') }, { requiredKeys: [] })
const content = fc.tuple(fc.boolean(), named)

it('a result belongs to the last call of its id, or else to the last of its name', () => {
  fc.assert(
    fc.property(fc.array(content, { maxLength: 12 }), (history) => {
      const calls = history.flatMap(([isCall, one]) => (isCall && one.name !== undefined ? [one] : []))
      const found = results(history.map(([isCall, one]) => (isCall ? asked(one) : answered(one))))
      const expected = history
        .filter(([isCall]) => !isCall)
        .map(([, { id, name }]) => {
          const byId = id === undefined ? undefined : calls.findLast((call) => call.id === id)
          return (byId ?? calls.findLast((call) => call.name === name))?.name ?? name
        })
      expect(found.map(({ call }) => call?.name)).toEqual(expected)
    }),
  )
})

it('the calls of a long history are not searched again for every result', () => {
  const count = 120_000
  const numbers = Array.from({ length: count }, (_, index) => index)
  const calls = {
    role: 'model',
    parts: numbers.map((n) => ({ functionCall: { id: `c${n}`, name: `f${n}`, args: {} } })),
  }
  const answers = { role: 'user', parts: numbers.map((n) => ({ functionResponse: { id: `d${n}`, name: `g${n}` } })) }
  expect(results([calls, answers]).every(({ call }, n) => call?.name === `g${n}`)).toBe(true)
})
