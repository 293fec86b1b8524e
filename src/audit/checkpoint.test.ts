import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import { sha256Bytes } from '../kernel/hash.ts'
import {
  checkpointOrigin,
  formatCheckpoint,
  generateKey,
  openCheckpoint,
  openNote,
  originTenant,
  parseCheckpoint,
  parseSignerKey,
  parseVerifierKey,
  signCheckpoint,
  signNote,
} from './checkpoint.ts'

const random = { bytes: (count: number) => Buffer.alloc(count, 7) }
const key = generateKey('castellan/test', random)
const otherKey = generateKey('castellan/test')
const root = sha256Bytes('root')
const origin = checkpointOrigin('log1', 'local')
const note = signCheckpoint({ origin, size: 42, root }, key.signerKey)

const failure = (work: () => unknown): { code: string; field: unknown } => {
  try {
    work()
  } catch (error) {
    if (error instanceof AppError) return { code: error.code, field: error.details['field'] }
    throw error
  }
  throw new Error('expected an AppError')
}

describe('signed notes', () => {
  it('open the notes and make the signatures of other implementations', () => {
    // The example of the Go package golang.org/x/mod/sumdb/note.
    const signerKey = 'PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz'
    const verifierKey = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW'
    const text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    const signed = `${text}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n`
    expect(parseSignerKey(signerKey).verifierKey).toBe(verifierKey)
    expect(signNote(text, signerKey)).toBe(signed)
    expect(openNote(signed, verifierKey)).toEqual({ text, signedBy: 'PeterNeumann' })
    // The example of the C2SP signed-note specification.
    expect(
      openNote(
        'This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n',
        'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k',
      ).text,
    ).toBe('This is an example message.\n')
  })

  it('come back as they were signed', () => {
    expect(openCheckpoint(note, key.verifierKey)).toEqual({ origin, size: 42, root })
    expect(note).toBe(signNote(formatCheckpoint({ origin, size: 42, root }), parseSignerKey(key.signerKey)))
    expect(note.startsWith(`castellan/log1/local\n42\n${root.toString('base64')}\n\n— castellan/test `)).toBe(true)
  })

  it('are refused after a change of any one character', () => {
    fc.assert(
      fc.property(fc.nat(note.length - 1), fc.constantFrom('0', 'x', '\n', ' ', '—', '+', '='), (at, character) => {
        fc.pre(note[at] !== character)
        const changed = note.slice(0, at) + character + note.slice(at + 1)
        expect(() => openCheckpoint(changed, key.verifierKey)).toThrow(AppError)
      }),
      { numRuns: 500 },
    )
  })

  it('are refused with a code for any text at all, never with another error', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: 'binary' })), (text) => {
        expect(failure(() => openCheckpoint(text, key.verifierKey)).code).toBe('ERR_LOG_INVALID')
        expect(failure(() => parseVerifierKey(text)).code).toBe('ERR_INVALID_INPUT')
        expect(failure(() => parseSignerKey(text)).code).toBe('ERR_INVALID_INPUT')
      }),
    )
  })

  it('tell a missing signer from an invalid signature', () => {
    expect(failure(() => openNote(note, otherKey.verifierKey))).toEqual({ code: 'ERR_LOG_INVALID', field: 'signer' })
    const changed = note.replace('\n42\n', '\n43\n')
    expect(failure(() => openNote(changed, key.verifierKey))).toEqual({ code: 'ERR_LOG_INVALID', field: 'signature' })
  })

  it('ignore further signatures of unknown keys, but not a bad one of the known key', () => {
    const text = formatCheckpoint({ origin, size: 42, root })
    const otherLine = signNote(text, otherKey.signerKey).slice(text.length + 1)
    expect(openNote(note + otherLine, key.verifierKey).text).toBe(text)
    expect(openNote(note + otherLine, otherKey.verifierKey).text).toBe(text)
    const badLine = signNote(`${text}more\n`, key.signerKey).slice(text.length + 6)
    expect(failure(() => openNote(note + badLine, key.verifierKey)).field).toBe('signature')
    expect(failure(() => openNote(note + otherLine.repeat(100), key.verifierKey)).field).toBe('signature')
  })

  it('refuse malformed parts by name', () => {
    const field = (text: string): unknown => failure(() => openNote(text, key.verifierKey)).field
    expect(field('')).toBe('note')
    expect(field('text\n')).toBe('note')
    expect(field('x'.repeat(1_000_001))).toBe('note')
    expect(field('\n\n— a b\n')).toBe('signature')
    expect(field('text\n\n')).toBe('signature')
    expect(field('te\txt\n\n— a AAAAAAAA\n')).toBe('text')
    expect(field(note.slice(0, -1))).toBe('signature')
    expect(failure(() => signNote('no line feed', key.signerKey)).field).toBe('text')
    expect(failure(() => signNote('a\u0000\n', key.signerKey)).field).toBe('text')
  })
})

describe('checkpoints', () => {
  it('are read strictly', () => {
    const base64 = root.toString('base64')
    expect(parseCheckpoint(`o\n0\n${base64}\nextension\n`)).toEqual({ origin: 'o', size: 0, root })
    const field = (text: string): unknown => failure(() => parseCheckpoint(text)).field
    expect(field(`o\n1\n${base64}`)).toBe('checkpoint')
    expect(field(`o\n1\n`)).toBe('checkpoint')
    expect(field(`\n1\n${base64}\n`)).toBe('checkpoint')
    expect(field(`o\n1\n${base64}\n\n`)).toBe('checkpoint')
    for (const size of ['01', '-1', '1.0', '+1', '1e3', ' 1', '9007199254740992', '99999999999999999999']) {
      expect(field(`o\n${size}\n${base64}\n`)).toBe('size')
    }
    expect(field(`o\n1\n${base64.slice(0, -1)}\n`)).toBe('root')
    expect(field(`o\n1\n${Buffer.alloc(31).toString('base64')}\n`)).toBe('root')
  })

  it('cannot be made from values that would read back differently', () => {
    const field = (checkpoint: { origin: string; size: number; root: Buffer }): unknown =>
      failure(() => formatCheckpoint(checkpoint)).field
    expect(field({ origin: 'evil\n999', size: 1, root })).toBe('origin')
    expect(field({ origin: '', size: 1, root })).toBe('origin')
    expect(field({ origin, size: 1.5, root })).toBe('size')
    expect(field({ origin, size: 1, root: Buffer.alloc(31) })).toBe('root')
  })

  it('name the tenant in the origin', () => {
    expect(originTenant(checkpointOrigin('log1', 'team/a'))).toBe('team/a')
    expect(originTenant('elsewhere/log1/a')).toBeUndefined()
    expect(() => checkpointOrigin('a/b', 'c')).toThrow(AppError)
    expect(() => checkpointOrigin('a', '')).toThrow(AppError)
    expect(() => checkpointOrigin('a', 'b\nc')).toThrow(AppError)
  })
})

describe('keys', () => {
  it('carry their id and survive a round trip', () => {
    const verifier = parseVerifierKey(key.verifierKey)
    expect(verifier.name).toBe('castellan/test')
    expect(parseSignerKey(key.signerKey)).toMatchObject({ keyId: verifier.keyId, verifierKey: key.verifierKey })
    expect(generateKey('castellan/test', random)).toEqual(key)
    expect(otherKey).not.toEqual(key)
  })

  it('are refused when name, id or bytes do not belong together', () => {
    expect(() => generateKey('two words')).toThrow(AppError)
    expect(() => generateKey('a+b')).toThrow(AppError)
    expect(() => generateKey('')).toThrow(AppError)
    expect(() => parseVerifierKey(key.verifierKey.replace('test', 'best'))).toThrow(AppError)
    expect(() => parseSignerKey(key.signerKey.replace('test', 'best'))).toThrow(AppError)
    expect(() => parseVerifierKey(key.signerKey)).toThrow(/private signer key/)
    expect(() => parseSignerKey(key.verifierKey)).toThrow(AppError)
    const [name, id] = key.verifierKey.split('+')
    expect(() => parseVerifierKey(`${name}+${id}+${Buffer.alloc(33, 2).toString('base64')}`)).toThrow(/Ed25519/)
    expect(() => parseVerifierKey(`${name}+${id}+AQ==`)).toThrow(/Ed25519/)
  })
})
