import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chatFormat } from './chat-format.ts'
import { createAnswerJudge } from './events.ts'
import { generateFormat } from './generate-format.ts'
import { messagesFormat } from './messages-format.ts'
import type { JudgedFormat, ModelCall } from './ports.ts'
import { responsesFormat } from './responses-format.ts'

/** Streams as the providers send them: some text, then a call of `good` and one of `bad`, with their arguments in parts. */
const named = (events: readonly Readonly<{ type: string }>[]): string =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
const plain = (events: readonly object[]): string =>
  events.map((event) => `data: ${JSON.stringify(event)}\r\n\r\n`).join('')

const chunk = (delta: object, finish_reason: string | null = null) => ({
  id: 'c',
  choices: [{ index: 0, delta, finish_reason }],
})
const part = (index: number, text: string, head: object = {}) =>
  chunk({
    tool_calls: [
      { index, ...head, function: { ...('id' in head && { name: ['good', 'bad'][index] }), arguments: text } },
    ],
  })
const chatStream = `${plain([
  chunk({ role: 'assistant', content: '' }),
  chunk({ content: 'Say "tool_calls": é' }),
  part(0, '', { id: 'a', type: 'function' }),
  part(0, '{"x":'),
  part(1, '{"se', { id: 'b', type: 'function' }),
  part(0, '1}'),
  part(1, 'cret":1}'),
  chunk({}, 'tool_calls'),
  { id: 'c', choices: [], usage: { prompt_tokens: 1 } },
])}data: [DONE]\n\n`

const block = (index: number, name: string, texts: readonly string[]) => [
  { type: 'content_block_start', index, content_block: { type: 'tool_use', id: `t${index}`, name, input: {} } },
  ...texts.map((partial_json) => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'input_json_delta', partial_json },
  })),
  { type: 'content_block_stop', index },
]
const messageStream = named([
  { type: 'message_start', message: { id: 'm', content: [], usage: { input_tokens: 1 } } } as Event,
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as Event,
  { type: 'ping' },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Use "tool_use" é' } } as Event,
  { type: 'content_block_stop', index: 0 } as Event,
  ...(block(1, 'good', ['{"x"', ':1}']) as Event[]),
  ...(block(2, 'bad', ['{"se', 'cret":1}']) as Event[]),
  { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 2 } } as Event,
  { type: 'message_stop' },
])
type Event = Readonly<{ type: string }>

const generated = (parts: readonly object[], more: object = {}) => ({ candidates: [{ content: { parts }, ...more }] })
const generateStream = plain([
  generated([{ text: 'Call "functionCall" é' }]),
  generated([{ functionCall: { name: 'good', args: { x: 1 } } }]),
  generated([{ functionCall: { name: 'bad', args: { secret: 1 } }, thoughtSignature: 's' }], { finishReason: 'STOP' }),
])

const item = (index: number, name: string, text: string) => ({
  id: `fc_${index}`,
  type: 'function_call',
  call_id: `call_${index}`,
  name,
  arguments: text,
})
const output = [
  { id: 'msg_0', type: 'message', content: [{ type: 'output_text', text: 'é' }] },
  item(1, 'good', '{"x":1}'),
  item(2, 'bad', '{"secret":1}'),
]
const itemEvents = (index: number, name: string, text: string) => [
  { type: 'response.output_item.added', output_index: index, item: item(index, name, '') },
  { type: 'response.function_call_arguments.delta', output_index: index, item_id: `fc_${index}`, delta: text },
  { type: 'response.function_call_arguments.done', output_index: index, item_id: `fc_${index}`, arguments: text },
  { type: 'response.output_item.done', output_index: index, item: item(index, name, text) },
]
const responseStream = named(
  [
    { type: 'response.created', response: { id: 'resp_1', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { id: 'msg_0', type: 'message', content: [] } },
    { type: 'response.output_text.delta', output_index: 0, delta: 'a _call é' },
    ...itemEvents(1, 'good', '{"x":1}'),
    ...itemEvents(2, 'bad', '{"secret":1}'),
    { type: 'response.completed', response: { id: 'resp_1', output } },
  ].map((event, sequence_number) => ({ ...event, sequence_number })),
)

const streams: readonly [string, JudgedFormat, string][] = [
  ['chat', chatFormat, chatStream],
  ['messages', messagesFormat, messageStream],
  ['generate', generateFormat, generateStream],
  ['responses', responsesFormat, responseStream],
]

async function pass(
  format: JudgedFormat,
  text: string,
  cuts: readonly number[],
  refusalOf: (call: ModelCall) => string | undefined | Promise<string | undefined>,
): Promise<string> {
  const judge = createAnswerJudge(format, { refusalOf, providerRan() {}, wrote() {}, wroteOpaque() {} })
  const bytes = Buffer.from(text)
  const ends = [...new Set(cuts.map((cut) => cut % bytes.length))].sort((one, other) => one - other)
  const out: Buffer[] = []
  let from = 0
  for (const end of [...ends, bytes.length]) {
    const part = Buffer.from(bytes.subarray(from, end))
    const taken = judge.take(part)
    const passed = taken instanceof Promise ? await taken : taken && Buffer.from(taken)
    part.fill('#')
    if (passed !== undefined) out.push(passed)
    from = end
  }
  const last = await judge.finish()
  return Buffer.concat(last === undefined ? out : [...out, last]).toString()
}

const cuts = fc.array(fc.nat(5_000), { maxLength: 12 })

describe.each(streams)('a stream of %s, cut anywhere', (_, format, text) => {
  it('is the same bytes if its calls are allowed, whether that is known at once or later', () =>
    fc.assert(
      fc.asyncProperty(cuts, fc.boolean(), async (at, isLater) => {
        const seen: ModelCall[] = []
        const passed = await pass(format, text, at, (call) => {
          seen.push(call)
          return isLater ? Promise.resolve(undefined) : undefined
        })
        expect(passed).toBe(text)
        const unique = new Map(seen.map(({ name, args }) => [name, args]))
        expect([...unique]).toEqual([
          ['good', { x: 1 }],
          ['bad', { secret: 1 }],
        ])
      }),
      { numRuns: 60 },
    ))

  it('has nothing of a call that is refused, and all of the others', () =>
    fc.assert(
      fc.asyncProperty(cuts, fc.boolean(), async (at, isLater) => {
        const refuse = (call: ModelCall) => (call.name === 'bad' ? 'REFUSED' : undefined)
        const passed = await pass(format, text, at, (call) => (isLater ? Promise.resolve(refuse(call)) : refuse(call)))
        expect(passed).not.toContain('cret')
        expect(passed).not.toMatch(/"bad"/)
        expect(passed).toContain('REFUSED')
        expect(passed).toContain('good')
        for (const event of passed.split(/\r?\n\r?\n/).filter((one) => one !== '' && !one.includes('[DONE]'))) {
          expect(() => JSON.parse(/data: (.*)/.exec(event)![1]!)).not.toThrow()
        }
      }),
      { numRuns: 60 },
    ))

  it('ends without a call that was cut off', async () => {
    const passed = await pass(format, text.slice(0, text.indexOf('cret')), [], () => undefined)
    expect(passed).not.toContain('"bad"')
  })
})

it('events of responses are numbered without gaps after a refusal', async () => {
  const passed = await pass(responsesFormat, responseStream, [], ({ name }) =>
    name === 'good' ? 'REFUSED' : undefined,
  )
  const numbers = [...passed.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number))
  expect(numbers).toEqual(numbers.map((_, index) => index))
  expect(passed).toContain('"arguments":"{\\"secret\\":1}"')
})

/** What a server may send that does not keep to the usual order. Judges see every call with all of its arguments, or it does not pass. */
const seenIn = async (format: JudgedFormat, text: string) => {
  const seen: ModelCall[] = []
  const passed = await pass(format, text, [], (call) => {
    seen.push(call)
    return call.args === undefined ? 'REFUSED' : undefined
  })
  return { passed, seen }
}

it.each([': keep-alive', 'event: ping', 'retry: 100', 'id: 7'])(
  'a line without data ends no call: %s',
  async (line) => {
    const [head, tail] = chatStream
      .split('data: ')
      .reduce<[string, string]>(
        ([before, after], one, index) =>
          index < 4 ? [`${before}${index > 0 ? 'data: ' : ''}${one}`, after] : [before, `${after}data: ${one}`],
        ['', ''],
      )
    const { passed, seen } = await seenIn(chatFormat, `${head}${line}\n\n${tail}`)
    expect(seen).toMatchObject([
      { name: 'good', args: { x: 1 } },
      { name: 'bad', args: { secret: 1 } },
    ])
    expect(passed).toContain(line)
  },
)

it('parts of a call that come after its end are refused', async () => {
  const call = part(0, '', { id: 'a' })
  const { passed, seen } = await seenIn(
    chatFormat,
    plain([call, chunk({}, 'tool_calls'), part(0, '{"to":"evil"}'), chunk({}, 'stop')]),
  )
  expect(seen).toMatchObject([
    { name: 'good', args: {} },
    { name: '', args: undefined },
  ])
  expect(passed).not.toContain('evil')
})

it('choices that alternate are judged each by itself', async () => {
  const of = (index: number, delta: object, finish_reason: string | null = null) => ({
    choices: [{ index, delta, finish_reason }],
  })
  const called = (name: string, text: string) => ({
    tool_calls: [{ index: 0, function: { ...(name !== '' && { name }), arguments: text } }],
  })
  const text = plain([
    of(0, called('good', '{"x"')),
    of(1, called('bad', '{"se')),
    of(0, called('', ':1}')),
    of(0, {}, 'tool_calls'),
    of(1, called('', 'cret":1}')),
    of(1, {}, 'tool_calls'),
  ])
  const { passed, seen } = await seenIn(chatFormat, text)
  expect(passed).toBe(text)
  expect(seen).toMatchObject([
    { name: 'good', args: { x: 1 } },
    { name: 'bad', args: { secret: 1 } },
  ])
})

it('blocks of a message that are mixed are refused, and a message that begins with a call is judged', async () => {
  const good = block(0, 'good', ['{"x"', ':1}']) as Event[]
  const bad = block(1, 'bad', ['{"se', 'cret":1}']) as Event[]
  const inTurn = await seenIn(messagesFormat, named([...good, ...bad]))
  expect(inTurn.passed).toBe(named([...good, ...bad]))
  const mixed = named([good[0]!, bad[0]!, good[1]!, bad[1]!, good[2]!, bad[2]!, bad[3]!, good[3]!])
  await expect(seenIn(messagesFormat, mixed)).rejects.toMatchObject({ code: 'ERR_MODEL_FAILED' })
  const content = [{ type: 'tool_use', id: 't', name: 'bad', input: { secret: 1 } }]
  const started = named([{ type: 'message_start', message: { id: 'm', content } } as Event])
  expect((await seenIn(messagesFormat, started)).seen).toMatchObject([{ name: 'bad' }])
})

it('a call of a response that nobody announced is judged', async () => {
  const item = { type: 'function_call', id: 'fc', call_id: 'c', name: 'bad', arguments: '{"secret"' }
  const done = named([{ type: 'response.output_item.done', output_index: 0, item } as Event])
  const { passed, seen } = await seenIn(responsesFormat, done)
  expect(seen).toMatchObject([{ name: 'bad', args: undefined }])
  expect(passed).not.toContain('function_call')
  const started = named([{ type: 'response.in_progress', response: { id: 'r', output: [item] } } as Event])
  expect((await seenIn(responsesFormat, started)).passed).not.toContain('function_call')
})
