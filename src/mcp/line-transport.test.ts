import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LineSplitter, type OversizedLine, stdioTransport } from './line-transport.ts'

function splitterOf(lineBytesMax: number) {
  const lines: string[] = []
  const oversized: OversizedLine[] = []
  const splitter = new LineSplitter(lineBytesMax)
  splitter.onLine = (line) => lines.push(line)
  splitter.onOversizedLine = (line) => oversized.push(line)
  return { splitter, lines, oversized }
}

function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end))
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

describe('the stream transport', () => {
  it('writes everything sent in one turn with one write', async () => {
    const output = new PassThrough()
    const chunks: string[] = []
    output.on('data', (chunk: Buffer) => chunks.push(chunk.toString()))
    const transport = stdioTransport(new PassThrough(), output)
    for (let index = 0; index < 5; index++) transport.send(String(index))
    await new Promise((resolve) => setImmediate(resolve))
    expect(chunks).toEqual(['0\n1\n2\n3\n4\n'])
  })

  it('stops reading while its output is full and goes on when it drains', async () => {
    const input = new PassThrough()
    const output = new PassThrough({ highWaterMark: 8 })
    const transport = stdioTransport(input, output)
    transport.send('a long line that fills the output')
    await new Promise((resolve) => setImmediate(resolve))
    expect(input.isPaused()).toBe(true)
    const resumed = new Promise((resolve) => input.once('resume', resolve))
    output.resume()
    await resumed
  })

  it('says once that the input ended, even if the output breaks too', async () => {
    const input = new PassThrough()
    const output = new PassThrough()
    const transport = stdioTransport(input, output)
    let ends = 0
    const ended = new Promise<void>((resolve) =>
      transport.onClose(() => {
        ends++
        resolve()
      }),
    )
    output.destroy(new Error('broken pipe'))
    input.end()
    await ended
    await new Promise((resolve) => setImmediate(resolve))
    expect(ends).toBe(1)
  })
})
