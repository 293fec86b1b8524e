import { describe, expect, it } from 'vitest'
import { readEvents } from './event-reader.ts'

async function eventsOf(chunks: readonly (string | Uint8Array)[], bytesMax = 1_000): Promise<string[]> {
  const bytes = (async function* () {
    for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
  })()
  const events: string[] = []
  for await (const event of readEvents(bytes, bytesMax)) events.push(event)
  return events
}

describe('the events of a stream', () => {
  it.each<[string, readonly (string | Uint8Array)[], readonly string[]]>([
    ['one after the other', ['event: message\ndata: a\n\ndata: b\n\n'], ['a', 'b']],
    ['cut anywhere', ['da', 'ta: a', '\n', '\nda', 'ta:b\n\n'], ['a', 'b']],
    ['with carriage returns', ['data: a\r\n\r\ndata: b\r', '\n\r\n'], ['a', 'b']],
    ['of several lines', ['data: a\ndata: b\n\n'], ['a\nb']],
    ['without data, which are none', [': keepalive\n\nid: 7\n\ndata: a\n\n'], ['a']],
    ['that were not finished, which are none', ['data: a\n\ndata: b\n'], ['a']],
    [
      'with a character in two pieces',
      [Buffer.from('data: é\n\n').subarray(0, 7), Buffer.from('data: é\n\n').subarray(7)],
      ['é'],
    ],
  ])('%s', async (_what, chunks, expected) => expect(await eventsOf(chunks)).toEqual(expected))

  it('an event may be as long as the bound, and no longer', async () => {
    expect(await eventsOf(['data: 1234\n\n', 'data: 1234\n\n'], 12)).toEqual(['1234', '1234'])
    await expect(eventsOf(['data: 12345\n\n'], 12)).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    await expect(eventsOf(['data: 1', '234567890'], 12)).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
  })
})
