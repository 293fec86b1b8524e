import { describe, expect, it } from 'vitest'
import { localOwner } from '../contract/principal.ts'
import type { CostRange } from '../contract/usage-limits.ts'
import { createAnsweringModels } from './answering-models.ts'
import type { PricedProvider } from './ports.ts'
import { createPrices } from './prices.ts'
import { anthropic } from './protocols/anthropic.ts'
import { gemini } from './protocols/gemini.ts'
import { openai } from './protocols/openai.ts'
import type { Operation, Protocol } from './protocols/protocol.ts'
import { reserveFor, type Spending } from './spending.ts'
import { completeTokens } from './token-estimate.ts'

const providerOf = (protocol: Protocol): PricedProvider => ({
  ...{ name: protocol.name, protocol, isPublic: true, configuredPrices: new Map(), contextWindows: new Map() },
})
const DOCUMENT = { type: 'document', source: { type: 'url', url: 'https://example.org/a.pdf' } }

/** The millionths of a dollar that are reserved, and those of which an answer is settled. Others count billionths. */
const spentBy = (protocol: Protocol, ...rest: Rest) => spentAt(providerOf(protocol), protocol, ...rest)
type Rest = readonly [operation: Operation, model: string, more: object, headers: object, answer?: object]

function spentAt(provider: PricedProvider, protocol: Protocol, ...rest: Rest) {
  const [operation, model, more, headers, answer = {}] = rest
  let reserved = 0
  let least = 0
  let settled = 0
  const body = more as Readonly<Record<string, unknown>>
  const limits = {
    reserveCost(_: unknown, __: unknown, amount: () => number | CostRange) {
      const range = amount()
      reserved = typeof range === 'number' ? range : range.most
      least = typeof range === 'number' ? range : range.least
      return {
        settle(cost: number) {
          settled = cost
        },
      }
    },
    countCall() {},
  }
  const deps = { limits, prices: createPrices(), answering: createAnsweringModels(), defaultOutputTokens: 4_000 }
  const caller = { principal: localOwner, method: 'local_owner' } as const
  const request = { bytes: Buffer.from(JSON.stringify(body)), model, isStream: false, hidesUsage: false, body }
  const sent = { request, operation, headers: headers as Readonly<Record<string, unknown>> }
  const signal = () => new AbortController().signal
  const spending = reserveFor(deps, provider, { caller, proxy: undefined }, sent, signal) as Spending
  spending.settle(null, completeTokens(protocol.formatOf(operation)!.readUsage(answer)))
  return { reserved: reserved / 1_000, least: least / 1_000, settled: settled / 1_000, most: spending.most() }
}

const reservedFor = (...args: Parameters<typeof spentBy>): number => spentBy(...args).reserved

it('the context of a document is that of the model, or the larger one that the request asks for', () => {
  const body = { max_tokens: 1, messages: [{ role: 'user', content: [DOCUMENT] }] }
  const plain = reservedFor(anthropic, 'messages', 'claude-sonnet-4-5', body, {})
  expect(plain).toBe(200_000 * 3 + 15)
  const beta = { 'anthropic-beta': 'files-api-2025-04-14,context-1m-2025-08-07' }
  expect(reservedFor(anthropic, 'messages', 'claude-sonnet-4-5', body, beta)).toBeGreaterThanOrEqual(1_000_000 * 3)
})

it('a public model of which the register has no context has the largest of its provider', () => {
  const body = { cachedContent: 'cachedContents/1', contents: [], generationConfig: { maxOutputTokens: 1 } }
  expect(reservedFor(gemini, 'generate', 'gemini-2.5-pro', body, {})).toBeGreaterThanOrEqual(2_097_152 * 1.25)
})

describe('an answer without a bound', () => {
  const input = { messages: [] }
  const outputOf = (protocol: Protocol, operation: Operation, model: string, body: object) => {
    const [{ reserved, least }, written] = [
      spentBy(protocol, operation, model, body, {}),
      spentBy(protocol, operation, model, { ...body, max_tokens: 1, max_output_tokens: 1 }, {}),
    ]
    return { least: least - written.reserved, most: reserved - written.reserved }
  }

  it('reserves the longest that the model writes, and needs the default', () => {
    const gpt5 = outputOf(openai, 'chat', 'gpt-5', input)
    expect(gpt5.most).toBeGreaterThan(127_000 * 10)
    expect(gpt5.least).toBeLessThan(4_100 * 10)
    expect(outputOf(openai, 'responses', 'gpt-4o-mini', { input: 'x' }).most).toBeLessThan(16_400 * 0.6)
    const body = { contents: [] }
    expect(reservedFor(gemini, 'generate', 'gemini-2.5-flash', body, {})).toBeGreaterThan(65_536 * 2.5)
    expect(reservedFor(gemini, 'generate', 'gemini-2.0-flash', body, {})).toBeLessThan(8_300 * 0.4)
  })

  it('counts once for each requested answer', () => {
    const one = outputOf(openai, 'chat', 'gpt-5', input)
    const three = outputOf(openai, 'chat', 'gpt-5', { ...input, n: 3 })
    expect(three.most).toBeGreaterThan(2.9 * one.most - 100)
    expect(three.least).toBeGreaterThan(2.9 * one.least - 100)
  })

  it('of a model on a server of your own is bounded by its context, if that is configured', () => {
    const price = { input: 0, output: 1, cacheRead: 0, cacheWrite: 0 }
    const own = (contextWindows: ReadonlyMap<string, number>) =>
      ({
        ...{ name: 'own', protocol: openai, isPublic: false, contextWindows },
        configuredPrices: new Map([['m', price]]),
      }) as const
    const reserved = (provider: PricedProvider) => spentAt(provider, openai, 'chat', 'm', input, {}).reserved
    expect(reserved(own(new Map()))).toBe(4_000)
    expect(reserved(own(new Map([['m', 32_000]])))).toBe(32_000)
  })
})

describe('tokens with a price of their own', () => {
  const speech = 'A'.repeat(16_000)
  const heard = { type: 'input_audio', input_audio: { data: speech, format: 'wav' } }
  const spoken = { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } }
  const asked = { max_tokens: 1_000, messages: [{ role: 'user', content: [heard] }] }
  const details = (audio: unknown, cached = {}) => ({
    usage: {
      ...{ prompt_tokens: 1_000, completion_tokens: 1_000 },
      prompt_tokens_details: { audio_tokens: audio, ...cached },
      completion_tokens_details: { audio_tokens: 900 },
    },
  })

  it('of audio in and out, at OpenAI', () => {
    // 2.5 and 10 dollars for a million tokens of text, 32 and 64 for audio.
    const { reserved, settled } = spentBy(openai, 'chat', 'gpt-audio', { ...asked, ...spoken }, {}, details(800))
    expect(settled).toBe(200 * 2.5 + 800 * 32 + 100 * 10 + 900 * 64)
    expect(reserved).toBeGreaterThanOrEqual(1_000 * 32 + 1_000 * 64)
    expect(spentBy(openai, 'chat', 'gpt-4o', asked, {}, details(800)).settled).toBe(1_000 * 2.5 + 1_000 * 10)
  })

  it('that are asked for as text alone are reserved as that', () => {
    expect(reservedFor(openai, 'chat', 'gpt-audio', { max_tokens: 1_000, messages: [] }, {})).toBeLessThan(1_000 * 64)
    expect(
      reservedFor(openai, 'chat', 'gpt-audio', { max_tokens: 1_000, messages: [], modalities: ['text'] }, {}),
    ).toBeLessThan(1_000 * 64)
    expect(
      reservedFor(openai, 'chat', 'gpt-audio', { max_tokens: 1_000, messages: [], modalities: 'audio' }, {}),
    ).toBeGreaterThan(1_000 * 64)
  })

  it('of which the provider says something that cannot be read are taken for all', () => {
    expect(spentBy(openai, 'chat', 'gpt-audio', asked, {}, details('800')).settled).toBe(
      1_000 * 32 + 100 * 10 + 900 * 64,
    )
  })

  const modal = (modality: string, tokenCount: number) => ({ modality, tokenCount })
  const generated = (more: object) => ({
    usageMetadata: { promptTokenCount: 1_000, candidatesTokenCount: 1_000, totalTokenCount: 2_000, ...more },
  })
  const asking = { contents: [], generationConfig: { maxOutputTokens: 1_000 } }

  it('of audio and images, at Gemini', () => {
    const audio = { promptTokensDetails: [modal('TEXT', 600), modal('AUDIO', 300), modal('AUDIO', 100)] }
    const flash = (more: object) => spentBy(gemini, 'generate', 'gemini-2.5-flash', asking, {}, generated(more))
    expect(flash(audio).settled).toBe(600 * 0.3 + 400 * 1 + 1_000 * 2.5)
    // Of what the cache had, only a part can have been audio.
    const cached = { ...audio, cachedContentTokenCount: 700 }
    expect(flash(cached).settled).toBe(300 * 1 + 600 * 0.03 + 100 * 0.1 + 1_000 * 2.5)
    const said = { ...cached, cacheTokensDetails: [modal('TEXT', 400), modal('AUDIO', 300)] }
    expect(flash(said).settled).toBe(200 * 0.3 + 100 * 1 + 400 * 0.03 + 300 * 0.1 + 1_000 * 2.5)
    const drawn = { candidatesTokensDetails: [modal('IMAGE', 990)] }
    const image = spentBy(gemini, 'generate', 'gemini-2.5-flash-image', asking, {}, generated(drawn))
    expect(image.settled).toBe(1_000 * 0.3 + 10 * 2.5 + 990 * 30)
    expect(image.reserved).toBeGreaterThanOrEqual(1_000 * 30)
  })

  it('that are stored for an hour, at Anthropic', () => {
    const message = (more: object) => [{ role: 'user', content: [{ type: 'text', text: 'x'.repeat(9_000), ...more }] }]
    const usage = { input_tokens: 0, output_tokens: 1, cache_creation_input_tokens: 3_000 }
    const hour = { usage: { ...usage, cache_creation: { ephemeral_1h_input_tokens: 1_000 } } }
    const model = 'claude-opus-4-5'
    const stored = { max_tokens: 1, messages: message({ cache_control: { type: 'ephemeral', ttl: '1h' } }) }
    const { reserved, settled } = spentBy(anthropic, 'messages', model, stored, {}, hour)
    expect(settled).toBe(2_000 * 6.25 + 1_000 * 10 + 25)
    const plain = reservedFor(anthropic, 'messages', model, { max_tokens: 1, messages: message({}) }, {})
    expect(reserved).toBeGreaterThan(2 * (plain - 25))
  })

  it('of an answer that never came count as they were reserved', () => {
    const { reserved, most } = spentBy(openai, 'chat', 'gpt-audio', { ...asked, ...spoken }, {})
    expect(createPrices().costOf(providerOf(openai), 'gpt-audio', most)).toBe(reserved * 1_000)
  })
})
