import { isSpecType, parseJSONRPCMessage } from '@modelcontextprotocol/server'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { modernMeta } from '../../test/support/line-peer.ts'
import { createEnvelopeCheck, isLegacyCall, plainToolCall } from './call-request.ts'

/** Mostly right, now and then anything. */
const mostly = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc
    .tuple(fc.integer({ min: 0, max: 15 }), value, fc.jsonValue())
    .map(([dice, right, odd]) => (dice === 0 ? odd : right))
const seldom = fc
  .tuple(fc.integer({ min: 0, max: 15 }), fc.jsonValue())
  .map(([dice, odd]) => (dice === 0 ? odd : undefined))
const id = mostly(fc.oneof(fc.integer(), fc.string()))
const params = fc.record({
  name: mostly(fc.string()),
  arguments: mostly(fc.option(fc.dictionary(fc.string(), fc.jsonValue()), { nil: undefined })),
  _meta: mostly(fc.option(fc.record({ progressToken: id }), { nil: undefined })),
  task: seldom,
})
const message = fc
  .record({
    jsonrpc: mostly(fc.constant('2.0')),
    id,
    method: mostly(fc.constant('tools/call')),
    params: mostly(params),
    more: seldom,
  })
  .map((value) => JSON.parse(JSON.stringify(value)) as unknown)

describe('a plain tool call', () => {
  it('is never more than what the SDK accepts', () => {
    let plain = 0
    fc.assert(
      fc.property(message, (value) => {
        const call = plainToolCall(value)
        if (call === undefined) return
        plain++
        expect(() => parseJSONRPCMessage(value)).not.toThrow()
        expect(isSpecType.CallToolRequest(value)).toBe(true)
      }),
      { numRuns: 2_000 },
    )
    expect(plain).toBeGreaterThan(100)
  })

  it.each([
    ['a task', { name: 'ping', task: {} }],
    ['a resumed round', { name: 'ping', inputResponses: {} }],
    ['a signed state', { name: 'ping', requestState: 'x' }],
    ['a wrong token', { name: 'ping', _meta: { progressToken: 1.5 } }],
    ['arguments that are a list', { name: 'ping', arguments: [] }],
  ])('is not one with %s', (_, odd) => {
    expect(plainToolCall({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: odd })).toBeUndefined()
  })

  it('belongs to the older revisions only without reserved keys', () => {
    const withMeta = (meta: object) =>
      plainToolCall({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'ping', _meta: meta } })!
    expect(isLegacyCall(withMeta({ progressToken: 1, 'example.com/x': 1 }))).toBe(true)
    expect(isLegacyCall(withMeta({ 'io.modelcontextprotocol/related-task': { taskId: 't' } }))).toBe(false)
    expect(isLegacyCall(withMeta(modernMeta))).toBe(false)
  })
})

describe('the envelope check', () => {
  it('remembers good envelopes without letting bad ones through', () => {
    const check = createEnvelopeCheck()
    const judge = (meta: Record<string, unknown>): boolean =>
      check({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'ping', _meta: meta } }, meta)
    for (let round = 0; round < 2; round++) {
      expect(judge(modernMeta)).toBe(true)
      expect(judge({ ...modernMeta, 'io.modelcontextprotocol/clientInfo': { name: 1 } })).toBe(false)
      expect(judge({ ...modernMeta, 'io.modelcontextprotocol/logLevel': 'loud' })).toBe(false)
      expect(judge({ ...modernMeta, 'io.modelcontextprotocol/clientCapabilities': undefined })).toBe(false)
      expect(judge({ ...modernMeta, 'io.modelcontextprotocol/protocolVersion': '2025-11-25' })).toBe(false)
    }
  })
})
