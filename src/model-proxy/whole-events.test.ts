import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createAnswerJudge } from './judging/events.ts'
import { generateFormat } from './judging/generate-format.ts'
import { gemini } from './protocols/gemini.ts'
import { createAnswerTranslator } from './router/answer-translator.ts'
import { geminiChat } from './router/gemini-chat.ts'
import { StreamTap } from './stream-tap.ts'
import { WholeEvents } from './whole-events.ts'

const partsOf = (stream: Buffer, bytes: number): Buffer[] =>
  Array.from({ length: Math.ceil(stream.length / bytes) }, (_, index) =>
    stream.subarray(index * bytes, (index + 1) * bytes),
  )

describe('the events of a stream', () => {
  it('are whole wherever it is cut', () => {
    const blank = fc.constantFrom('\n\n', '\r\n\r\n', '\n\r\n')
    const event = fc.tuple(fc.constantFrom('data: a', 'event: b\ndata: \r c', ': é', ''), blank)
    fc.assert(
      fc.property(fc.array(event), fc.string(), fc.integer({ min: 1, max: 9 }), (events, rest, bytes) => {
        const stream = Buffer.from(`${events.map((parts) => parts.join('')).join('')}${rest}`)
        const gathered = new WholeEvents()
        const taken = partsOf(stream, bytes).flatMap((part) => {
          const changing = Buffer.from(part)
          const whole = gathered.take(changing)
          const copy = whole === undefined ? [] : [Buffer.from(whole)]
          changing.fill('#')
          return copy
        })
        for (const whole of taken) expect(whole.toString('latin1')).toMatch(/\n\r?\n$/)
        const held = gathered.held
        expect(held.toString('latin1')).not.toMatch(/\n\r?\n[\s\S]/)
        expect(Buffer.concat([...taken, held])).toEqual(stream)
      }),
    )
  })

  /** Where the bytes that are held were copied or searched for every part, this took minutes. */
  it('may be long and come in very small parts', async () => {
    const image = 'A'.repeat(1024 * 1024)
    const answer = { candidates: [{ content: { parts: [{ inlineData: { data: image } }] } }], usageMetadata: {} }
    const stream = Buffer.from(`data: ${JSON.stringify(answer)}\n\n`)
    const tap = new StreamTap(gemini.formatOf('generate')!, true)
    const judge = createAnswerJudge(generateFormat, {
      ...{ refusalOf: () => undefined, providerRan() {}, wrote() {}, wroteOpaque() {} },
    })
    const translator = createAnswerTranslator(geminiChat, { id: 'x', model: 'm', createdS: 0, includeUsage: true })
    const last: (Buffer | undefined)[] = []
    for (const part of partsOf(stream, 16))
      last.splice(0, 3, tap.take(part), await judge.take(part), translator.take(part))
    expect(last[0]!.equals(stream)).toBe(true)
    expect(last[1]!.equals(stream)).toBe(true)
  })

  it('are translated although one is a comment, and the last has no blank line after it', () => {
    const translator = createAnswerTranslator(geminiChat, { id: 'x', model: 'm', createdS: 0, includeUsage: true })
    const said = (text: string): string =>
      `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text }] } }], usageMetadata: { promptTokenCount: 7 } })}`
    const stream = Buffer.from(`${said('One')}\n\n: keep-alive\n\n${said('Two é')}`)
    const answer = [...partsOf(stream, 5).map((part) => translator.take(part)), translator.finish()].join('')
    expect(answer).toContain('"content":"One"')
    expect(answer).toContain('"content":"Two é"')
    expect(answer).toMatch(/"finish_reason":"stop"[\s\S]*"prompt_tokens":7[\s\S]*data: \[DONE\]/)
    const silent = createAnswerTranslator(geminiChat, { id: 'x', model: 'm', createdS: 0, includeUsage: true })
    const alive = `${silent.take(Buffer.from(`${said('One')}\n\n: keep-alive\n\n`))}${silent.finish()}`
    expect(alive).toContain('"finish_reason":"stop"')
  })
})
