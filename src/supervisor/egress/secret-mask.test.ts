import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createSecretMask } from './secret-mask.ts'

const throughMask = (values: readonly string[], chunks: readonly string[]): Promise<string> =>
  text(Readable.from(chunks.map((chunk) => Buffer.from(chunk))).pipe(createSecretMask(values).createStream()))

describe('createSecretMask', () => {
  it('hides a value, and what stands after its scheme', () => {
    const { maskText } = createSecretMask(['Bearer abcdefgh'])
    expect(maskText('got Bearer abcdefgh and abcdefgh.')).toBe('got *************** and ********.')
  })

  it('leaves secrets alone that are too short to be told from text', () => {
    expect(createSecretMask(['short']).maskText('in short')).toBe('in short')
  })

  it('passes on at once what cannot be the beginning of a secret', () => {
    const stream = createSecretMask(['abcdefgh']).createStream()
    stream.write(Buffer.from('data: one\n\n'))
    expect(String(stream.read())).toBe('data: one\n\n')
    stream.write(Buffer.from('data: abcd'))
    expect(String(stream.read())).toBe('data: ')
    stream.write(Buffer.from('x'))
    expect(String(stream.read())).toBe('abcdx')
  })

  it('finds a secret wherever the stream is cut, and changes nothing else', async () => {
    const letters = fc.stringMatching(/^[ab]{8,12}$/)
    const noise = fc.stringMatching(/^[abc]{0,30}$/)
    const property = fc.asyncProperty(
      letters,
      fc.array(noise, { maxLength: 6 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 7 })),
      async (secret, parts, cuts) => {
        const whole = parts.join(secret)
        const chunks: string[] = []
        for (let at = 0; at < whole.length; ) {
          const size = cuts.next().value as number
          chunks.push(whole.slice(at, at + size))
          at += size
        }
        const masked = await throughMask([secret], chunks)
        expect(masked).not.toContain(secret)
        expect(masked).toHaveLength(whole.length)
        expect(masked).toBe(createSecretMask([secret]).maskText(whole))
      },
    )
    await fc.assert(property, { numRuns: 200 })
  })
})
