import fc from 'fast-check'
import { expect, it } from 'vitest'
import { findBytes } from './find-bytes.ts'

function matchesOf(text: string, wanted: string): number[] {
  const matches: number[] = []
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) matches.push(at)
  return matches
}

it('finds every place, overlapping ones too', () => {
  const letters = (min: number, max: number) =>
    fc.string({ unit: fc.constantFrom('a', 'b'), minLength: min, maxLength: max })
  fc.assert(
    fc.property(letters(0, 80), letters(1, 24), letters(1, 4), (text, wanted, short) => {
      for (const one of [wanted, short, wanted.repeat(3), `${short}${'a'.repeat(17)}`]) {
        const whole = `${text}${one}${text}${one}`
        expect(findBytes(Buffer.from(whole), Buffer.from(one), 1_000)).toEqual(matchesOf(whole, one))
        expect(findBytes(Buffer.from(whole), Buffer.from(one), 1)).toEqual(matchesOf(whole, one).slice(0, 1))
      }
    }),
  )
})

it('is not made slow by bytes that nearly match everywhere', () => {
  const wanted = `${'a'.repeat(500_000)}b${'a'.repeat(500_000)}`
  expect(findBytes(Buffer.alloc(4 * 1024 * 1024, 'a'), Buffer.from(wanted), 2)).toEqual([])
})
