import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LineSplitter, type OversizedLine } from './line-splitter.ts'

function splitterOf(lineBytesMax: number) {
  const lines: string[] = []
  const oversized: OversizedLine[] = []
  const splitter = new LineSplitter(lineBytesMax)
  splitter.onLine = (line) => lines.push(line)
  splitter.onOversizedLine = (line) => oversized.push(line)
  return { splitter, lines, oversized }
}

function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const offsets = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return offsets.slice(1).map((end, index) => bytes.subarray(offsets[index], end))
}

describe('the line splitter', () => {
  it('gives the same lines however the bytes were cut', () => {
    const line = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((text) => !/[\r\n]/.test(text))
    fc.assert(
      fc.property(fc.array(line, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 12 }), (expected, cuts) => {
        const { splitter, lines } = splitterOf(10_000)
        const bytes = Buffer.from(expected.map((text) => `${text}\n`).join(''))
        for (const chunk of chunksOf(bytes, cuts)) splitter.push(chunk)
        expect(lines).toEqual(expected)
      }),
    )
  })

  it('reports the ends of each oversized line and reads the next one, however the bytes were cut', () => {
    const max = 2_000
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 12 }), fc.integer({ min: max + 1, max: 3 * max }), (cuts, length) => {
        const { splitter, lines, oversized } = splitterOf(max)
        const long = `HEAD${'x'.repeat(length - 8)}TAIL`
        for (const chunk of chunksOf(Buffer.from(`before\n${long}\nafter\n`), cuts)) splitter.push(chunk)
        expect(lines).toEqual(['before', 'after'])
        expect(oversized).toHaveLength(1)
        expect(oversized[0]!.head.startsWith('HEAD')).toBe(true)
        expect(oversized[0]!.tail.endsWith('TAIL')).toBe(true)
        expect(oversized[0]!.head.length + oversized[0]!.tail.length).toBeLessThanOrEqual(1_024)
      }),
    )
  })

  it('takes a line of exactly the limit', () => {
    const { splitter, lines, oversized } = splitterOf(16)
    splitter.push(Buffer.from(`${'a'.repeat(16)}\n${'b'.repeat(17)}\n`))
    expect(lines).toEqual(['a'.repeat(16)])
    expect(oversized).toHaveLength(1)
  })

  it('takes a last line without a newline when the input ends', () => {
    const { splitter, lines } = splitterOf(100)
    splitter.push(Buffer.from('one\ntwo'))
    splitter.end()
    expect(lines).toEqual(['one', 'two'])
  })
})
