import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anthropic } from './protocols/anthropic.ts'
import { gemini } from './protocols/gemini.ts'
import { openai } from './protocols/openai.ts'
import type { AnswerFormat } from './protocols/protocol.ts'
import { StreamTap } from './stream-tap.ts'
import { tokensIn } from './token-estimate.ts'

const text = fc.string({ unit: 'binary', maxLength: 30 })
const lineEnd = fc.constantFrom('\n', '\r\n')

/** What the tap lets pass of a stream that comes in parts cut at these offsets, each of which changes after the call. */
function passed(tap: StreamTap, stream: Buffer, cuts: readonly number[]): Buffer {
  const offsets = [0, ...cuts.map((cut) => cut % (stream.length + 1)).sort((a, b) => a - b), stream.length]
  const displayed: Buffer[] = []
  for (let index = 1; index < offsets.length; index++) {
    const part = Buffer.from(stream.subarray(offsets[index - 1]!, offsets[index]!))
    const taken = tap.take(part)
    if (taken !== undefined) displayed.push(Buffer.from(taken))
    part.fill('#')
  }
  const rest = tap.finish()
  if (rest !== undefined) displayed.push(rest)
  return Buffer.concat(displayed)
}

const chat = openai.formatOf('chat')!
const usage = { prompt_tokens: 7, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 2 } }
const read = { input: 7, output: 3, cacheRead: 2, cacheWrite: 0, reasoning: 0 }

describe('a tap', () => {
  it('lets the bytes pass wherever they are cut, without the usage if it is to be hidden', () => {
    fc.assert(
      fc.property(fc.array(text), lineEnd, fc.array(fc.nat()), fc.boolean(), (words, end, cuts, hides) => {
        const event = (value: unknown): string => `data: ${JSON.stringify(value)}${end}${end}`
        // Words of the model that look like what is looked for must not be taken for it.
        const said = [...words, '"usage":{"prompt_tokens":1}'].map((content) =>
          event({ choices: [{ delta: { content } }], usage: null }),
        )
        const before = said.join('')
        const after = `data: [DONE]${end}${end}`
        const stream = Buffer.from(`${before}${event({ choices: [], usage })}${after}`)
        const tap = new StreamTap(chat, hides)
        const displayed = passed(tap, stream, cuts)
        expect(displayed.toString()).toBe(hides ? `${before}${after}` : stream.toString())
        expect(tap.tokens).toEqual(read)
      }),
    )
  })

  it.each([
    [
      'anthropic',
      anthropic.formatOf('messages')!,
      [
        {
          type: 'message_start',
          message: { model: 'c', usage: { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 1 } },
        },
        { type: 'content_block_delta', delta: { text: 'hi' } },
        { type: 'message_delta', usage: { output_tokens: 9 } },
      ],
      { input: 9, cacheRead: 4, cacheWrite: 0, output: 9 },
    ],
    [
      'gemini',
      gemini.formatOf('generate')!,
      [1, 2, 3].map((count) => ({
        usageMetadata: { promptTokenCount: 6, candidatesTokenCount: count, thoughtsTokenCount: 2 },
      })),
      { input: 6, output: 5, cacheRead: 0, reasoning: 2 },
    ],
    [
      'responses',
      openai.formatOf('responses')!,
      [
        { type: 'response.created', response: { model: 'm', usage: null } },
        { type: 'response.completed', response: { usage: { input_tokens: 4, output_tokens: 2 } } },
      ],
      { input: 4, output: 2, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
    ],
  ])('reads what %s says last', (_, format: AnswerFormat, events, expected) => {
    fc.assert(
      fc.property(fc.array(fc.nat()), (cuts) => {
        const stream = Buffer.from(events.map((event) => `event: x\ndata: ${JSON.stringify(event)}\n\n`).join(''))
        const tap = new StreamTap(format, false)
        expect(passed(tap, stream, cuts).equals(stream)).toBe(true)
        expect(tap.tokens).toEqual(expected)
        expect(tap.events).toBe(events.length)
      }),
    )
  })

  it('counts the same text wherever a stream is cut, long or short, and what came after the usage was said', () => {
    const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
    const said = (words: readonly string[]): string =>
      words.map((content) => event({ id: 'x', choices: [{ delta: { content } }] })).join('')
    const bytesIn = (words: readonly string[]): number =>
      words.reduce((sum, word) => sum + Buffer.byteLength(JSON.stringify(word)) - 2, 0)
    const words = fc.array(fc.oneof(text, fc.constant('long '.repeat(20_000))), { maxLength: 6 })
    fc.assert(
      fc.property(words, words, fc.array(fc.nat()), (before, after, cuts) => {
        const tap = new StreamTap(chat, false)
        passed(tap, Buffer.from(`${said(before)}${event({ choices: [], usage })}${said(after)}`), cuts)
        expect(tap.events).toBe(before.length + 1 + after.length)
        expect(tap.passedTokens).toBe(Math.max(tap.events, tokensIn(bytesIn(before) + bytesIn(after))))
        expect(tap.reportedOutput).toEqual({ reported: read.output, since: tokensIn(bytesIn(after)) })
      }),
      { numRuns: 40 },
    )
  })
})
