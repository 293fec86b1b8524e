import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RetainedOutput } from './backend.ts'
import { outputText } from './output-text.ts'

const JSON_MAX = 1_000_000
const marker = /\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n/

/** What a back end retains of a stream: all of it, or head and tail. */
function keep(bytes: Buffer, max: number): RetainedOutput {
  const totalBytes = bytes.length
  if (totalBytes <= max) return { head: bytes, tail: Buffer.alloc(0), totalBytes, omittedBytes: 0 }
  const head = bytes.subarray(0, Math.ceil(max / 2))
  const tail = bytes.subarray(totalBytes - Math.floor(max / 2))
  return { head, tail, totalBytes, omittedBytes: totalBytes - head.length - tail.length }
}

describe('the text of an output', () => {
  it('is all of it when it fits, wherever it was kept', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(50), (text, cut) => {
        const bytes = Buffer.from(text)
        const retained = {
          head: bytes.subarray(0, cut),
          tail: bytes.subarray(cut),
          totalBytes: bytes.length,
          omittedBytes: 0,
        }
        expect(outputText(retained, 10_000, JSON_MAX)).toEqual({
          text: text.toWellFormed(),
          totalBytes: bytes.length,
          truncated: false,
        })
      }),
    )
  })

  it('else is the beginning and the end, in whole characters, with the exact number of bytes between', () => {
    const texts = fc
      .array(fc.constantFrom('a', 'ä', '€', '😀', '\n'), { minLength: 60, maxLength: 300 })
      .map((parts) => parts.join(''))
    fc.assert(
      fc.property(texts, fc.integer({ min: 8, max: 50 }), (text, max) => {
        const bytes = Buffer.from(text)
        const displayed = outputText(keep(bytes, max), max, JSON_MAX)
        expect(displayed).toMatchObject({ truncated: true, totalBytes: bytes.length })
        expect(displayed.text).not.toContain('\ufffd')
        const [front, omitted, back] = displayed.text.split(marker) as [string, string, string]
        expect(text.startsWith(front) && text.endsWith(back)).toBe(true)
        expect(Buffer.byteLength(front) + Number(omitted) + Buffer.byteLength(back)).toBe(bytes.length)
        expect(Buffer.byteLength(front) + Buffer.byteLength(back)).toBeLessThanOrEqual(max)
      }),
    )
  })

  it('never becomes more JSON than it may, whatever the bytes are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 4_000 }), fc.integer({ min: 500, max: 2_000 }), (bytes, max) => {
        const { text } = outputText(keep(Buffer.from(bytes), 4_000), 4_000, max)
        expect(Buffer.byteLength(JSON.stringify(text))).toBeLessThanOrEqual(max)
      }),
    )
    const zeros = outputText(keep(Buffer.alloc(100_000), 100_000), 100_000, 30_000)
    expect(zeros).toMatchObject({ truncated: true, totalBytes: 100_000 })
    expect(zeros.text).toMatch(marker)
  })
})
