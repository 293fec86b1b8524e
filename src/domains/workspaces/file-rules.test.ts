import { isUtf8 } from 'node:buffer'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createUtf8Check, type PartEdges, permissionText, wholeCharacters } from './file-rules.ts'

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

const inner: PartEdges = { startsInside: true, endsInside: true }
const bytesLikeText = fc.oneof(
  fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 40 }),
  fc
    .array(fc.constantFrom(0x41, 0x80, 0xbf, 0xc3, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0xed, 0xa0, 0xff))
    .map(Buffer.from),
)

function checkInPieces(bytes: Uint8Array, cuts: readonly number[], edges?: PartEdges): boolean {
  const check = createUtf8Check(edges)
  const borders = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  const pushed = borders.slice(1).map((end, index) => check.push(bytes.subarray(borders[index], end)))
  const verdict = check.end()
  // Once false, it stays false.
  if (pushed.includes(false)) expect([...pushed.slice(pushed.indexOf(false)), verdict]).not.toContain(true)
  return verdict
}

describe('the check for UTF-8', () => {
  it('says the same as looking at the whole, however the bytes are cut', () => {
    fc.assert(
      fc.property(bytesLikeText, fc.array(fc.nat(), { maxLength: 6 }), (bytes, cuts) => {
        expect(checkInPieces(bytes, cuts)).toBe(isUtf8(bytes))
      }),
    )
  })

  it('accepts every part of a text, and the whole characters of the part are text', () => {
    const part = fc.tuple(fc.string({ unit: 'binary' }), fc.nat(), fc.nat(), fc.array(fc.nat(), { maxLength: 4 }))
    fc.assert(
      fc.property(part, ([text, from, to, cuts]) => {
        const all = Buffer.from(text)
        const [start, end] = [from % (all.length + 1), to % (all.length + 1)].toSorted((a, b) => a - b) as [
          number,
          number,
        ]
        const edges = { startsInside: start > 0, endsInside: end < all.length }
        const bytes = all.subarray(start, end)
        expect(checkInPieces(bytes, cuts, edges)).toBe(true)
        const retained = wholeCharacters(bytes, edges)
        expect(isUtf8(retained)).toBe(true)
        expect(text).toContain(Buffer.from(retained).toString())
        expect(bytes.length - retained.length).toBeLessThanOrEqual(6)
      }),
    )
  })

  it('notices binary content in the middle of a part', () => {
    expect(checkInPieces(Buffer.from([0x41, 0xff, 0x41]), [1], inner)).toBe(false)
    expect(checkInPieces(Buffer.from([0x80, 0x80, 0x80, 0x80]), [1, 2], inner)).toBe(false)
    expect(checkInPieces(Buffer.from([0x80, 0x41]), [], { startsInside: false, endsInside: true })).toBe(false)
    expect(checkInPieces(Buffer.from([0x41, 0xe2]), [], { startsInside: true, endsInside: false })).toBe(false)
    expect(wholeCharacters(Buffer.from([0x82, 0xac, 0x41, 0xe2]), inner)).toEqual(Buffer.from('A'))
  })
})
