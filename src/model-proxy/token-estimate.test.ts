import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openai } from './protocols/openai.ts'
import { StreamTap } from './stream-tap.ts'
import { billOf, mayReason, NO_TOKENS } from './token-estimate.ts'

const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`

it('numbers at the beginning of a stream do not hide what is written after them', () => {
  const tap = new StreamTap(openai.formatOf('chat')!, false)
  const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
  tap.take(Buffer.from(event({ choices: [{ delta: { content: 'x'.repeat(90) } }], usage })))
  tap.take(Buffer.from(event({ choices: [{ delta: { content: 'x'.repeat(3_000) } }] })))
  const most = () => ({ ...NO_TOKENS, input: 1, output: 9_000 })
  const bounds = { most, outputMax: () => 9_000, mayReason: false, answers: 1 }
  const sent = { wasSent: true, httpStatus: 200, isStreamed: true, sentForMs: 60_000 }
  const known = { ...sent, ending: 'left', tap, textBytes: () => 1, bounds } as const
  const tokens = { input: 5, output: 1_002 }
  expect(billOf({ ...known, said: tap.tokens })).toMatchObject({ tokens, isEstimated: true })
})

const known = (output: number, mayReason: boolean, sentForMs: number) => ({
  ...{ wasSent: true, httpStatus: 200, said: undefined, tap: undefined, textBytes: () => 0, sentForMs },
  bounds: {
    ...{ most: () => ({ ...NO_TOKENS, input: 7, output }), outputMax: () => output, mayReason, answers: 1 },
  },
})
const outputOf = (ended: Parameters<typeof billOf>[0]) => billOf(ended).tokens!.output

it('a stream that breaks off before it begins has written what fits into the time, and only if it may do so unseen', () => {
  for (const ending of ['broken', 'left'] as const) {
    expect(outputOf({ ...known(128_000, true, 250), ending, isStreamed: true })).toBe(250)
    expect(outputOf({ ...known(128_000, false, 250), ending, isStreamed: true })).toBe(0)
    expect(outputOf({ ...known(100, true, 250), ending, isStreamed: true })).toBe(100)
  }
  // Another answer is written before it is sent, and also if the client has left.
  expect(outputOf({ ...known(128_000, false, 250), ending: 'broken', isStreamed: false })).toBe(250)
  expect(outputOf({ ...known(128_000, false, 250), ending: 'left', isStreamed: false })).toBe(128_000)
})

it('an estimate is never higher than the reservation, nor lower than what passed', () => {
  const cases = fc.record({
    outputMax: fc.nat(2_000),
    passedTokens: fc.nat(4_000),
    said: fc.option(fc.record({ reported: fc.nat(1_000), since: fc.nat(4_000) }), { nil: undefined }),
    mayReason: fc.boolean(),
    sentForMs: fc.nat(10_000),
    answers: fc.integer({ min: 1, max: 3 }),
    isStreamed: fc.boolean(),
    ending: fc.constantFrom('complete' as const, 'broken' as const, 'left' as const),
    isUnfinished: fc.boolean(),
  })
  fc.assert(
    fc.property(cases, ({ outputMax, passedTokens, said, mayReason, answers, isStreamed, ...ended }) => {
      const most = () => ({ ...NO_TOKENS, input: 7, output: outputMax })
      const output = outputOf({
        ...{ wasSent: true, httpStatus: 200, isStreamed, ...ended, textBytes: () => 3 * passedTokens },
        said: said && { input: 7, output: ended.ending === 'complete' ? undefined : said.reported },
        tap: isStreamed ? { passedTokens, reportedOutput: said } : undefined,
        bounds: { most, outputMax: () => outputMax, mayReason, answers },
      })
      expect(output).toBeLessThanOrEqual(Math.max(outputMax, said?.reported ?? 0))
      const passed = isStreamed && said !== undefined ? said.reported + said.since : passedTokens
      expect(output).toBeGreaterThanOrEqual(Math.min(passed, outputMax))
    }),
  )
})

it('a request cannot talk a reasoning model out of its estimate', () => {
  const other = { protocol: 'openai', isPublic: false, model: 'm' } as const
  expect(mayReason(other, { thinking: { type: 'disabled' } })).toBe(false)
  expect(mayReason(other, { reasoning: { type: 'disabled', effort: 'high' } })).toBe(true)
  expect(mayReason(other, { generationConfig: {}, generation_config: { thinking_config: {} } })).toBe(true)
  expect(mayReason({ ...other, model: 'openai/o3' }, { reasoning_effort: 'none' })).toBe(true)
  expect(mayReason({ ...other, protocol: 'anthropic', isPublic: true }, {})).toBe(false)
})
