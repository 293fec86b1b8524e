import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { withoutDeniedImages } from './answer-images.ts'
import type { AnswerJudge } from './ports.ts'

/** An answer of which every part passes. */
const passing: AnswerJudge = {
  take: (bytes) => bytes,
  finish: () => undefined,
  whole: (bytes) => bytes,
  heldBytes: 0,
}

type Format = Readonly<{ event: (text: string) => object; textOf: (data: never) => string }>
const formats: Readonly<Record<string, Format>> = {
  chat: {
    event: (content) => ({ choices: [{ index: 0, delta: { content } }] }),
    textOf: (data: { choices: { delta: { content: string } }[] }) => data.choices[0]!.delta.content,
  },
  responses: {
    event: (delta) => ({ type: 'response.output_text.delta', item_id: 'm', output_index: 0, content_index: 0, delta }),
    textOf: (data: { delta: string }) => data.delta,
  },
  messages: {
    event: (text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
    textOf: (data: { delta: { text: string } }) => data.delta.text,
  },
  generate: {
    event: (text) => ({ candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] } }] }),
    textOf: (data: { candidates: { content: { parts: { text: string }[] } }[] }) =>
      data.candidates[0]!.content.parts[0]!.text,
  },
}

const pieces = fc.constantFrom(
  '!',
  '[',
  '![',
  '<',
  'i',
  'm',
  'g',
  '<img',
  '<IMG ',
  'pic',
  'ture',
  '<svg',
  '<div',
  'sty',
  'le',
  'style',
  'background',
  '=',
  '\n ',
  ' ',
  'a',
  '](u)',
)
const IMAGE = /!\[|<(?:img|picture|svg|style)(?![\w-])|<[a-z].*?(?<![\w-])(?:style|background)\s*=/is
/** A name may be longer than what has come of it. */
const OPENING = /!\[|<(?:img|picture|svg|style)|<.*?(?:style|background)\s*=/is

describe.each(Object.entries(formats))('images in a stream of the format %s', (_, { event, textOf }) => {
  const passed = async (texts: readonly string[], isDenied: boolean): Promise<string> => {
    const guard = withoutDeniedImages(passing, { isDenied: () => isDenied, denied: () => {} })
    let all = ''
    for (const text of texts) {
      const bytes = await guard.take(Buffer.from(`event: x\ndata: ${JSON.stringify(event(text))}\n\n`))
      const [, data] = /^event: x\ndata: (.*)\n\n$/.exec(bytes!.toString('utf8')) ?? []
      all += textOf(JSON.parse(data!) as never)
    }
    return all
  }

  it('are text where they are denied, however they are cut', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { maxLength: 12 }), async (texts) => {
        const text = await passed(texts, true)
        expect(text).not.toMatch(IMAGE)
        if (!OPENING.test(texts.join(''))) expect(text).toBe(texts.join(''))
      }),
    )
  })

  it('pass unchanged where they are allowed', async () => {
    expect(await passed(['a !', '[x](u) <i', 'mg>'], false)).toBe('a ![x](u) <img>')
  })

  it.each([
    ['<div style="background:url(u)">'],
    ['<td ', 'background', ' ', '\n'.repeat(100), ' = "u">'],
    ['<st', 'yle>@import "u"'],
    ['<meta http-equiv="refresh" content="0;url=u">'],
  ])('loads nothing by %j', async (...texts) => {
    expect(await passed(texts, true)).not.toMatch(/<(?:style|meta)|(?:style|background)\s*=/)
  })

  it('leaves styles alone where no element has begun', async () => {
    const text = ['plot(style="bold", linestyle', '="x") # 1 < style=2, a <b']
    expect(await passed(text, true)).toBe(text.join(''))
    expect(await passed(['style=1 <a', 'b'], true)).toBe('style=1 <ab')
  })
})

describe('parts of an answer that a program displays as one text', () => {
  const guard = () => withoutDeniedImages(passing, { isDenied: () => true, denied: () => {} })
  const streamed = async (events: readonly object[]): Promise<string> => {
    const answer = guard()
    const parts: string[] = []
    for (const event of events)
      parts.push((await answer.take(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)))!.toString())
    return parts.join('')
  }
  const candidate = (...parts: object[]) => ({ candidates: [{ content: { role: 'model', parts } }] })

  it('have no image where one begins in the part before', async () => {
    const [opening, rest] = ['see !', '[x](https://example.com/?secret)']
    const thought = { text: 'hm', thought: true }
    const told = [
      await streamed([
        candidate(thought, { text: 'a' }),
        candidate({ text: opening }),
        candidate(thought, { text: rest }),
      ]),
      await streamed([candidate({ text: opening }, { text: rest })]),
      await streamed(
        [opening, rest].map((text, index) => ({
          type: 'content_block_delta',
          index,
          delta: { type: 'text_delta', text },
        })),
      ),
      await streamed(
        [opening, rest].map((delta, content_index) => {
          return { type: 'response.output_text.delta', item_id: 'm', output_index: 0, content_index, delta }
        }),
      ),
      String(await guard().whole(Buffer.from(JSON.stringify({ content: [{ text: opening }, { text: rest }] })), true)),
    ]
    for (const text of told) expect(text).toMatch(/see !.*Castellan.*x\]\(https/s)
  })

  it('are told apart where several are written at the same time', async () => {
    const choice = (index: number, content: string) => ({ choices: [{ index, delta: { content } }] })
    expect(await streamed([choice(0, '!'), choice(1, '[no image](u)'), choice(0, ' ')])).not.toContain('Castellan')
  })
})

it('the arguments of calls and the thoughts of a model are left alone', async () => {
  const guard = withoutDeniedImages(passing, { isDenied: () => true, denied: () => {} })
  const answer = {
    choices: [{ message: { content: null, tool_calls: [{ function: { arguments: '{"content":"![x](u)"}' } }] } }],
    candidates: [
      { content: { parts: [{ text: '![x](u)', thought: true }, { functionCall: { args: { text: '![' } } }] } },
    ],
  }
  const bytes = Buffer.from(JSON.stringify(answer))
  expect(await guard.whole(bytes, true)).toBe(bytes)
})

it.each(['refusal', 'reasoning', 'reasoning_content'])('the displayed %s of a message has no image', async (name) => {
  const guard = withoutDeniedImages(passing, { isDenied: () => true, denied: () => {} })
  const answer = { choices: [{ message: { content: 'ok', [name]: '![x](u)' } }] }
  expect(String(await guard.whole(Buffer.from(JSON.stringify(answer)), true))).not.toContain('![')
})

it.each(['reasoning_text', 'reasoning_summary_text'])('events of the kind %s have no image', async (kind) => {
  const guard = withoutDeniedImages(passing, { isDenied: () => true, denied: () => {} })
  const event = { type: `response.${kind}.delta`, item_id: 'r', output_index: 0, delta: '![x](u)' }
  expect(String(await guard.take(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)))).not.toContain('![')
})
