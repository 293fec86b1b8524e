import { createPrivateKey, createPublicKey, sign } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../../kernel/canonical-json.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { isSignedBy, readCall, readEnvelope, requestIdOf, signedText } from './envelope.ts'
import { readPublicKey } from './public-key.ts'
import { parseStrictJson } from './strict-json.ts'

const privateKey = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 7)]),
  format: 'der',
  type: 'pkcs8',
})
const RAW_KEY = '6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw='
const SIGNATURE = '+t5k1HP9sMpqqe0qy78XRd9/8FQE3pMrAPWYZ33vKpBZIIrA7bqZh5gAIDH0/zzSm22XleZ+SDUPHsfIF1pVBg=='
const vector = {
  protocol: 'seal/v1',
  security_token: 'tok.en.x',
  signature: SIGNATURE,
  payload: {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'fs.read', arguments: { path: '/workspace/a é.txt' } },
  },
  timestamp: '2026-02-17T14:32:01Z',
}

describe('the bytes that are signed', () => {
  it('are those of the published vector', () => {
    const envelope = readEnvelope(parseStrictJson(JSON.stringify(vector)))
    const text = signedText(envelope)
    expect(envelope.timestampSeconds).toBe(1771338721)
    expect(text).toBe(
      '{"payload":{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"path":"/workspace/a é.txt"},"name":"fs.read"}},"security_token":"tok.en.x","timestamp":1771338721}',
    )
    expect(sha256Hex(text)).toBe('6fa17b24f42acbf9b35270f411bb3fb7d85e275f8097994f3a6d7de00a5af787')
    expect(sign(null, Buffer.from(text), privateKey).toString('base64')).toBe(SIGNATURE)
    expect(isSignedBy(text, envelope.signature, readPublicKey(RAW_KEY))).toBe(true)
  })

  it('do not depend on the order of keys, and any other byte is another message', () => {
    const sorted = readEnvelope(JSON.parse(canonicalJson(vector)))
    expect(signedText(sorted)).toBe(signedText(readEnvelope(vector)))
    const key = readPublicKey(RAW_KEY)
    for (const change of [
      { ...vector, timestamp: '2026-02-17T14:32:02Z' },
      { ...vector, security_token: 'tok.en.y' },
      { ...vector, payload: { ...vector.payload, id: 2 } },
    ]) {
      const envelope = readEnvelope(change)
      expect(isSignedBy(signedText(envelope), envelope.signature, key)).toBe(false)
    }
  })

  it('sort keys by UTF-16 units at every depth', () => {
    const payload = { '\u{10000}': 1, '\uffff': 2, b: { z: 1, A: 2 } }
    const text = signedText({ payload, token: 't', timestampSeconds: 0 })
    expect(text).toBe('{"payload":{"b":{"A":2,"z":1},"\u{10000}":1,"\uffff":2},"security_token":"t","timestamp":0}')
  })
})

describe('JSON that can be signed', () => {
  it('is every JSON that an ECMAScript program writes, unless a number or a text is not exact', () => {
    const exact = fc.jsonValue({ maxDepth: 6 }).filter((value) => {
      const text = JSON.stringify(value)
      return !/\\ud[89a-f]|-0(?![.\d])/.test(text)
    })
    fc.assert(
      fc.property(exact, (value) => {
        const text = JSON.stringify(value)
        const numbers = text.match(/\d{16,}/g) ?? []
        if (numbers.some((digits) => !Number.isSafeInteger(Number(digits)))) return
        expect(JSON.stringify(parseStrictJson(text))).toBe(text)
      }),
    )
  })

  it.each([
    ['a key twice', '{"a":1,"a":2}'],
    ['a key twice, once with an escape', '{"a":1,"\\u0061":2}'],
    ['a key twice, deep inside a list', '{"x":[{"b":{"c":1,"c":1}}]}'],
    ['half a character in a text', '{"a":"\\ud800"}'],
    ['half a character in a key', '{"\\udc00":1}'],
    ['a whole number with a fraction', '{"a":1.0}'],
    ['another exponent', '{"a":1e21}'],
    ['minus zero', '[-0]'],
    ['a number beyond doubles', '[9007199254740993]'],
    ['a whole number that readers round', '[9007199254740992]'],
    ['too many digits', '[0.1000000000000000055]'],
    ['an infinite number', '[1e999]'],
    ['deep nesting', `${'['.repeat(41)}${']'.repeat(41)}`],
    ['no JSON', '{"a":}'],
  ])('is not %s', (_, text) => {
    expect(() => parseStrictJson(text)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_INPUT' }))
  })

  it('may have the same key in neighbours, quotes and backslashes in texts, and values that look like keys', () => {
    const text = '[{"a":"\\\\\\"a","b":"a"},{"a":["a","a",1.5,1e+21,-3]},"\\\\"]'
    expect(JSON.stringify(parseStrictJson(text))).toBe(text)
  })

  it('is looked at in one pass, however deep a hostile text nests', () => {
    expect(() => parseStrictJson('['.repeat(1_000_000) + ']'.repeat(1_000_000))).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_INPUT' }),
    )
  })
})

describe('an envelope', () => {
  it.each([
    ['envelope', []],
    ['protocol', { ...vector, protocol: 'smcp/v1' }],
    ['security_token', { ...vector, security_token: undefined }],
    ['signature', { ...vector, signature: SIGNATURE.slice(4) }],
    ['signature', { ...vector, signature: SIGNATURE.replaceAll('+', '-') }],
    ['payload', { ...vector, payload: [] }],
    ['timestamp', { ...vector, timestamp: 1771338721 }],
    ['timestamp', { ...vector, timestamp: '2026-02-17' }],
    ['timestamp', { ...vector, timestamp: '2026-02-30T99:00:00Z' }],
  ])('without a proper %s is malformed', (field, value) => {
    expect(() => readEnvelope(value)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_INPUT', details: expect.objectContaining({ field }) }),
    )
  })

  it('has whole seconds, whatever its zone and fraction', () => {
    for (const timestamp of ['2026-02-17T14:32:01.999Z', '2026-02-17T15:32:01+01:00']) {
      expect(readEnvelope({ ...vector, timestamp }).timestampSeconds).toBe(1771338721)
    }
  })

  it('calls a tool by tools/call, or by a method of its name', () => {
    expect(readCall(vector.payload)).toEqual({ name: 'fs.read', args: { path: '/workspace/a é.txt' } })
    expect(readCall({ method: 'fs.read', params: { path: 'a' } })).toEqual({ name: 'fs.read', args: { path: 'a' } })
    expect(readCall({ method: 'tools/call', params: { name: 'x' } })).toEqual({ name: 'x', args: {} })
  })

  it.each([
    [{}],
    [{ method: '' }],
    [{ method: 'tools/call' }],
    [{ method: 'tools/call', params: { arguments: {} } }],
    [{ method: 'tools/call', params: { name: '' } }],
    [{ method: 'tools/call', params: { name: 'x', arguments: [] } }],
  ])('with the payload %j names no tool', (payload) => {
    expect(() => readCall(payload)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_INPUT' }))
  })

  it('gives an answer its id where it has one', () => {
    expect([requestIdOf(vector), requestIdOf({ payload: { id: {} } }), requestIdOf('x')]).toEqual([1, null, null])
  })
})

describe('a public key', () => {
  const publicKey = createPublicKey(privateKey)

  it('is its 32 bytes, PEM, or SPKI in base64', () => {
    const spki = publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
    const pem = publicKey.export({ format: 'pem', type: 'spki' }) as string
    for (const written of [RAW_KEY, pem, spki, `${RAW_KEY}\n`]) {
      expect(readPublicKey(written).toString('base64')).toBe(RAW_KEY)
    }
  })

  it.each([
    ['nothing', ''],
    ['31 bytes', Buffer.alloc(31, 7).toString('base64')],
    ['a private key', privateKey.export({ format: 'pem', type: 'pkcs8' }) as string],
    ['base64url', RAW_KEY.replaceAll('+', '-')],
    ['a point of small order', Buffer.alloc(32).toString('base64')],
    ['the neutral element with a sign', Buffer.from([1, ...new Array<number>(30).fill(0), 0x80]).toString('base64')],
  ])('is not %s', (_, written) => {
    expect(() => readPublicKey(written)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_INPUT' }))
  })
})
