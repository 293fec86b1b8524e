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
  const known = { wasSent: true, httpStatus: 200, ending: 'left', tap, answerBytes: 1, most, mayReason: false } as const
  const tokens = { input: 5, output: 1_002 }
  expect(billOf({ ...known, said: tap.tokens })).toMatchObject({ tokens, isEstimated: true })
})

it('a request cannot talk a reasoning model out of its estimate', () => {
  const other = { protocol: 'openai', isPublic: false, model: 'm' } as const
  expect(mayReason(other, { thinking: { type: 'disabled' } })).toBe(false)
  expect(mayReason(other, { reasoning: { type: 'disabled', effort: 'high' } })).toBe(true)
  expect(mayReason(other, { generationConfig: {}, generation_config: { thinking_config: {} } })).toBe(true)
  expect(mayReason({ ...other, model: 'openai/o3' }, { reasoning_effort: 'none' })).toBe(true)
  expect(mayReason({ ...other, protocol: 'anthropic', isPublic: true }, {})).toBe(false)
})
