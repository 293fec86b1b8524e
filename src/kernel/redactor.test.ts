import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Json } from './canonical-json.ts'
import { createRedactor, REDACTED } from './redactor.ts'

const secret = fc
  .string({ minLength: 8, maxLength: 40, unit: 'grapheme-ascii' })
  .filter((text) => /^\S.*\S$/.test(text) && !text.includes('*'))

it('leaves nothing of a secret, wherever it stands and however it is written', () => {
  const around = fc.string({ maxLength: 20 })
  fc.assert(
    fc.property(secret, around, around, (one, before, after) => {
      const { text, value } = createRedactor([one])!
      const plain = before + one + after
      const forms = [
        plain,
        JSON.stringify({ [one]: plain }),
        JSON.stringify(JSON.stringify([plain])).slice(1, -1),
        encodeURIComponent(one),
        Buffer.from(plain).toString('base64'),
        Buffer.from(plain).toString('base64url'),
      ]
      for (const form of forms) expect(text(form)).toContain(REDACTED)
      const cleaned = JSON.stringify(value({ [one]: [plain, { deep: plain }], n: 1 } as Json))
      expect(Object.keys(JSON.parse(cleaned))).not.toContain(one)
      expect(text(plain).includes(one)).toBe(false)
    }),
  )
})

it('takes out the lines of a secret of several, and leaves other texts as they are', () => {
  const redactor = createRedactor(['-----BEGIN KEY-----\nabcdefghijklmnop\n-----END KEY-----\n'])!
  expect(redactor.text('line: abcdefghijklmnop.')).toBe('line: ***.')
  expect(redactor.value({ a: ['x', 1, null, true], b: 'abc' })).toEqual({ a: ['x', 1, null, true], b: 'abc' })
  expect(redactor.text('a***b')).toBe('a***b')
})

it('has nothing to do without secrets, or with those that are in every text', () => {
  expect(createRedactor([])).toBeUndefined()
  expect(createRedactor(['k', ''])).toBeUndefined()
})
