import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { stdioLines, streamLines } from './line-transport.ts'

describe('streamLines', () => {
  test('gives lines in order, reports the long one, and takes the last without its line end', async () => {
    const input = new PassThrough()
    const transport = streamLines({ input, output: new PassThrough(), lineBytesMax: 20, pauseInputWhenFull: true })
    const seen: string[] = []
    transport.onOversizedLine(({ head }) => seen.push(`long ${head.slice(0, 3)}`))
    transport.onLine((line) => seen.push(line))
    const closed = new Promise<void>((resolve) => transport.onClose(resolve))
    input.write('one\nxyz')
    input.write(`${'x'.repeat(30)}\n`)
    input.write(Buffer.from('Θ').subarray(0, 1))
    input.write(Buffer.from('Θ').subarray(1))
    input.end()
    await closed
    expect(seen).toEqual(['one', 'long xyz', 'Θ'])
  })

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

  test('reads nothing for a caller that does not listen yet, however its output flows', async () => {
    const input = new PassThrough()
    const output = new PassThrough({ highWaterMark: 10 })
    const transport = streamLines({ input, output, lineBytesMax: 100, pauseInputWhenFull: true })
    input.write('first\n')
    transport.send('x'.repeat(50))
    const drained = new Promise<void>((resolve) => transport.onDrain(resolve))
    output.resume()
    await drained
    const lines: string[] = []
    transport.onLine((line) => lines.push(line))
    await expect.poll(() => lines).toEqual(['first'])
  })

  test('says once that the input ended, even if the output breaks too', async () => {
    const input = new PassThrough()
    const output = new PassThrough()
    const transport = stdioLines(input, output)
    let ends = 0
    transport.onClose(() => ends++)
    output.destroy(new Error('broken pipe'))
    transport.onLine(() => {})
    const closed = new Promise((resolve) => input.on('close', resolve))
    input.end()
    await closed
    expect(ends).toBe(1)
  })

  test('says that an input is over which was over before', async () => {
    const input = new PassThrough()
    const over = new Promise((resolve) => input.resume().on('close', resolve))
    input.end()
    await over
    const transport = stdioLines(input, new PassThrough())
    await new Promise<void>((resolve) => transport.onClose(resolve))
  })

  test('hands over no line after it was closed', async () => {
    const input = new PassThrough()
    const transport = stdioLines(input, new PassThrough().resume())
    const lines: string[] = []
    transport.onLine((line) => {
      lines.push(line)
      void transport.close()
    })
    const closed = new Promise((resolve) => input.on('close', resolve))
    input.write('one\ntwo\n')
    input.write('three\n')
    await closed
    expect(lines).toEqual(['one'])
  })
})
