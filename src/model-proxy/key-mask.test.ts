import fc from 'fast-check'
import { expect, it } from 'vitest'
import { KeyMask } from './key-mask.ts'

it('a key is masked however a stream is cut, and nothing else is changed', () => {
  const key = 'sk-sk-secret'
  const piece = fc.constantFrom(key, 'sk-', 'sk-sk-', 's', 'secret', ' é\n', 'sk-sk-secre')
  fc.assert(
    fc.property(fc.array(piece), fc.array(fc.nat(120)), (pieces, cuts) => {
      const bytes = Buffer.from(pieces.join(''))
      const ends = [...cuts.filter((cut) => cut < bytes.length), bytes.length].sort((a, b) => a - b)
      const mask = new KeyMask(key)
      const out: Buffer[] = []
      let from = 0
      for (const end of ends) {
        const part = Buffer.from(bytes.subarray(from, end))
        out.push(Buffer.from(mask.take(part)))
        part.fill('#')
        from = end
      }
      out.push(mask.finish())
      const passed = Buffer.concat(out).toString()
      expect(passed).not.toContain(key)
      expect(passed).toBe(pieces.join('').replaceAll(key, '[redacted]'))
    }),
    { numRuns: 300 },
  )
})
