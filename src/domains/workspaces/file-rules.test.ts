import { isUtf8 } from 'node:buffer'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { permissionText, wholeCharacters } from './file-rules.ts'

describe('permissionText', () => {
  it.each([
    [0o755, 'rwxr-xr-x'],
    [0o640, 'rw-r-----'],
    [0, '---------'],
    [0o1777, 'rwxrwxrwt'],
    [0o1666, 'rw-rw-rwT'],
    [0o4755, 'rwsr-xr-x'],
    [0o4644, 'rwSr--r--'],
    [0o2755, 'rwxr-sr-x'],
    [0o2745, 'rwxr-Sr-x'],
    [0o100644, 'rw-r--r--'],
  ])('shows %o as %s', (mode, text) => {
    expect(permissionText(mode)).toBe(text)
  })
})

describe('the whole characters of a part of a text', () => {
  it('are text, and all of it but for what the edges cut', () => {
    const part = fc.tuple(fc.string({ unit: 'binary' }), fc.nat(), fc.nat())
    fc.assert(
      fc.property(part, ([text, from, to]) => {
        const all = Buffer.from(text)
        const [start, end] = [from % (all.length + 1), to % (all.length + 1)].toSorted((a, b) => a - b) as [
          number,
          number,
        ]
        const bytes = all.subarray(start, end)
        const retained = wholeCharacters(bytes, { startsInside: start > 0, endsInside: end < all.length })
        expect(isUtf8(retained)).toBe(true)
        expect(text).toContain(Buffer.from(retained).toString())
        expect(bytes.length - retained.length).toBeLessThanOrEqual(6)
      }),
    )
  })

  it('are what lies between two cut characters', () => {
    const inner = { startsInside: true, endsInside: true }
    expect(wholeCharacters(Buffer.from([0x82, 0xac, 0x41, 0xe2]), inner)).toEqual(Buffer.from('A'))
  })
})
