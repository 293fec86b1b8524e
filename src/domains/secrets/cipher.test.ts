import fc from 'fast-check'
import { expect, it } from 'vitest'
import { systemRandom } from '../../kernel/random.ts'
import { open, seal } from './cipher.ts'

const key = { id: 'k', bytes: Buffer.alloc(32, 7) }

it('opens what was sealed, with the same key and at the same aad alone', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string(), (value, aad) => {
      const sealed = seal(key, aad, value, systemRandom)
      expect(open(key, aad, sealed)).toBe(Buffer.from(value).toString())
      expect(open(key, `${aad}x`, sealed)).toBeUndefined()
      expect(open({ ...key, bytes: Buffer.alloc(32, 8) }, aad, sealed)).toBeUndefined()
    }),
  )
})

it('opens nothing that was changed, in any byte', () => {
  const sealed = Buffer.from(seal(key, 'p', 'value', systemRandom), 'base64')
  for (const index of sealed.keys()) {
    const changed = Buffer.from(sealed)
    changed[index]! ^= 1
    expect(open(key, 'p', changed.toString('base64'))).toBeUndefined()
  }
  expect(open(key, 'p', 'short')).toBeUndefined()
})

it('seals the same value differently each time', () => {
  expect(seal(key, 'p', 'v', systemRandom)).not.toBe(seal(key, 'p', 'v', systemRandom))
})
