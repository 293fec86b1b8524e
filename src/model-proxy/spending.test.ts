import { expect, it } from 'vitest'
import { localOwner } from '../contract/principal.ts'
import { createAnsweringModels } from './answering-models.ts'
import type { PricedProvider } from './ports.ts'
import { createPrices } from './prices.ts'
import { anthropic } from './protocols/anthropic.ts'
import { gemini } from './protocols/gemini.ts'
import type { Operation, Protocol } from './protocols/protocol.ts'
import { reserveFor } from './spending.ts'

const providerOf = (protocol: Protocol): PricedProvider => ({
  ...{ name: protocol.name, protocol, isPublic: true, configuredPrices: new Map(), contextWindows: new Map() },
})
const DOCUMENT = { type: 'document', source: { type: 'url', url: 'https://example.org/a.pdf' } }

/** What is reserved, in millionths of a dollar. */
function reservedFor(protocol: Protocol, operation: Operation, model: string, more: object, headers: object): number {
  let reserved = 0
  const body = more as Readonly<Record<string, unknown>>
  const limits = {
    reserveCost(_: unknown, __: unknown, amount: () => number) {
      reserved = amount()
      return { settle() {} }
    },
    countCall() {},
  }
  const deps = { limits, prices: createPrices(), answering: createAnsweringModels(), defaultOutputTokens: 0 }
  const caller = { principal: localOwner, method: 'local_owner' } as const
  const request = { bytes: Buffer.from(JSON.stringify(body)), model, isStream: false, hidesUsage: false, body }
  const sent = { request, operation, headers: headers as Readonly<Record<string, unknown>> }
  const signal = () => new AbortController().signal
  void reserveFor(deps, providerOf(protocol), { caller, proxy: undefined }, sent, signal)
  return reserved
}

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
