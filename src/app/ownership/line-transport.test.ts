import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createLinePair, createLineSplitter, streamLines } from './line-transport.ts'

function split(chunks: readonly Buffer[], lineBytesMax = 1_000): { lines: string[]; oversize: number } {
  const lines: string[] = []
  let oversize = 0
  const splitter = createLineSplitter({
    lineBytesMax,
    onLine: (line) => lines.push(line),
    onOversize: () => oversize++,
  })
  for (const chunk of chunks) splitter.push(chunk)
  return { lines, oversize }
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((left, right) => left - right)
  return [0, ...at].map((start, index) => bytes.subarray(start, at[index] ?? bytes.length))
}

describe('createLineSplitter', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 40 }).map((line) => line.replace(/[\r\n]/g, ''))

  test('gives the same lines however the bytes are cut', () => {
    fc.assert(
      fc.property(fc.array(text), fc.array(fc.nat()), (lines, places) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''))
        expect(split(cut(bytes, places)).lines).toEqual(lines.filter((line) => line !== ''))
      }),
    )
  })

  test('drops exactly the lines over the limit, in any cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 60 })), fc.array(fc.nat()), (lengths, places) => {
        const lines = lengths.map((length) => 'x'.repeat(length))
        const result = split(cut(Buffer.from(lines.map((line) => `${line}\n`).join('')), places), 20)
        expect(result.lines).toEqual(lines.filter((line) => line.length > 0 && line.length <= 20))
        expect(result.oversize).toBe(lines.filter((line) => line.length > 20).length)
      }),
    )
  })

  test('accepts a carriage return before the line end', () => {
    expect(split([Buffer.from('{"a":1}\r\n{}\r\n')]).lines).toEqual(['{"a":1}', '{}'])
  })
})

describe('streamLines', () => {
  test('sends the lines of one turn in one write', async () => {
    const output = new PassThrough()
    const transport = streamLines({ input: new PassThrough(), output, lineBytesMax: 100, pauseInputWhenFull: true })
    transport.send('one')
    transport.send('two')
    const chunk = await new Promise((resolve) => output.once('data', resolve))
    expect(String(chunk)).toBe('one\ntwo\n')
  })

  test('stops reading while its reader is slow, and goes on afterwards', async () => {
    const input = new PassThrough()
    const output = new PassThrough({ highWaterMark: 10 })
    const transport = streamLines({ input, output, lineBytesMax: 100, pauseInputWhenFull: true })
    const lines: string[] = []
    transport.onLine((line) => lines.push(line))
    transport.send('x'.repeat(50))
    await expect.poll(() => input.isPaused()).toBe(true)
    expect(transport.send('y')).toBe(false)
    input.write('late\n')
    output.resume()
    await expect.poll(() => lines).toEqual(['late'])
  })

  test('gives up a reader that takes nothing', async () => {
    const output = new PassThrough({ highWaterMark: 10 })
    const options = { lineBytesMax: 100, pauseInputWhenFull: false, bufferedBytesMax: 1_000 }
    const transport = streamLines({ input: new PassThrough(), output, ...options })
    const closed = new Promise<void>((resolve) => transport.onClose(resolve))
    transport.send('x'.repeat(2_000))
    await closed
    expect(output.destroyed).toBe(true)
  })

  test('reports the end of the input and still sends what is left', async () => {
    const input = new PassThrough()
    const output = new PassThrough()
    const transport = streamLines({ input, output, lineBytesMax: 100, pauseInputWhenFull: true })
    transport.onLine(() => {})
    const closed = new Promise<void>((resolve) => transport.onClose(resolve))
    input.end()
    await closed
    transport.send('last')
    transport.close()
    expect(String(Buffer.concat(await output.toArray()))).toBe('last\n')
  })
})

test('a pair keeps lines for a handler that comes later, and tells of the end once', () => {
  const [near, far] = createLinePair()
  const seen: string[] = []
  near.send('early')
  far.onLine((line) => seen.push(line))
  near.send('later')
  far.onClose(() => seen.push('closed'))
  near.onLine((line) => seen.push(`back ${line}`))
  near.close()
  near.close()
  near.send('dropped')
  far.send('answer')
  expect(seen).toEqual(['early', 'later', 'closed', 'back answer'])
})
