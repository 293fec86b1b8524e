import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * What the packages of the providers give to a program. The same answers reach it unjudged when the provider is asked directly, so that
 * each of these tests would notice if the package read nothing in them.
 */
let upstream: Server
let server: ServerHere
let answer = { type: '', text: '' }
let direct: string
let judged: string

beforeAll(async () => {
  upstream = createServer((req, res) => {
    req.resume().on('end', () => res.writeHead(200, { 'content-type': answer.type }).end(answer.text))
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  direct = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const provider = (type: string) => ({
    ...{ name: type, type, endpoint: `${direct}/v1` },
    models: [{ alias: type, model: 'm' }],
  })
  const dataDir = newDataDir()
  const models = { providers: ['openai', 'anthropic', 'gemini'].map(provider) }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models }))
  server = await startServerHere({ dataDir })
  judged = `${new URL(server.url).origin}/v1`
  const policy = async (toolId: string, conditions: object[]): Promise<void> => {
    const response = await fetch(`${judged}/tools/create_tool_invocation_policy`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ toolId, conditions, action: 'block_always', reason: 'no' }),
    })
    expect(response.status).toBe(200)
  }
  await policy('client:send_mail', [])
  await policy('client:http_get', [{ key: 'url', operator: 'contains', value: 'evil' }])
})
afterAll(async () => {
  await server.stop()
  upstream.close()
  upstream.closeAllConnections()
})

const evil = { name: 'send_mail', arguments: '{"to":"evil"}' }
const named = (events: readonly Readonly<{ type: string }>[]): string =>
  events
    .map((event, sequence_number) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`)
    .join('')
const data = (events: readonly object[]): string => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')

const good = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'ok', arguments: '{}', status: 'completed' }
const created = { type: 'response.created', response: { id: 'resp_9', status: 'in_progress', output: [] } }
const added = { type: 'response.output_item.added', output_index: 0, item: { ...good, arguments: '' } }
const done = { type: 'response.output_item.done', output_index: 0, item: good }
const completed = (output: readonly object[]) => ({
  type: 'response.completed',
  response: { id: 'resp_9', status: 'completed', output, usage: { input_tokens: 1, output_tokens: 1 } },
})
const usage = { input_tokens: 1, output_tokens: 1 }
const start = { type: 'message_start', message: { id: 'm', type: 'message', role: 'assistant', content: [], usage } }
const begin = (index: number, name: string) => ({
  type: 'content_block_start',
  index,
  content_block: { type: 'tool_use', id: `t${index}`, name, input: {} },
})
const input = (index: unknown, partial_json: string) => ({
  type: 'content_block_delta',
  index,
  delta: { type: 'input_json_delta', partial_json },
})
const stop = (index: number) => ({ type: 'content_block_stop', index })
const end = [{ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage }, { type: 'message_stop' }]
const chatPart = (call: object, finish_reason: string | null = null) => ({
  ...{ id: 'c', object: 'chat.completion.chunk', model: 'm' },
  choices: [{ index: 0, delta: { role: 'assistant', tool_calls: [call] }, finish_reason }],
})
const chatEnd = { id: 'c', model: 'm', choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }
const url = '{"url":"http://evil"}'

const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'hi' }] }
const openai = (base: string, path: string) =>
  new OpenAI({ apiKey: 'castellan', baseURL: `${base}${path}`, maxRetries: 0 })
const anthropic = (base: string, path: string) =>
  new Anthropic({ apiKey: 'castellan', baseURL: `${base}${path}`, maxRetries: 0 })

/** Each returns what the program sees. */
const programs = {
  chat: (base: string) => openai(base, '/openai').chat.completions.create(ask),
  chatStream: async (base: string) =>
    (await openai(base, '/openai').chat.completions.stream(ask).finalChatCompletion()).choices,
  responses: (base: string) => openai(base, '/openai').responses.create({ model: 'm', input: 'hi' }),
  responsesStream: async (base: string) =>
    (await openai(base, '/openai').responses.stream({ model: 'm', input: 'hi' }).finalResponse()).output,
  messagesStream: async (base: string) =>
    (
      await anthropic(base, '/anthropic')
        .messages.stream({ ...ask, max_tokens: 9 })
        .finalMessage()
    ).content,
  generate: async (base: string) =>
    (
      await new GoogleGenAI({
        apiKey: 'castellan',
        httpOptions: { baseUrl: `${base}/gemini` },
      }).models.generateContent({ model: 'm', contents: 'hi' })
    ).functionCalls,
} as const

it.each<[string, keyof typeof programs, string]>([
  [
    'a call beside another kind of call',
    'chat',
    JSON.stringify({
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            tool_calls: [{ id: 'a', type: 'function', custom: { name: 'ok', input: '' }, function: evil }],
          },
        },
      ],
    }),
  ],
  [
    'parts of a call after its end',
    'chatStream',
    `${data([
      chatPart({ index: 0, id: 'a', type: 'function', function: { name: 'ok', arguments: url } }),
      chatEnd,
      chatPart({ index: 0, id: 'a', type: 'function', function: { name: 'http_get', arguments: '' } }),
      chatEnd,
    ])}data: [DONE]\n\n`,
  ],
  ['output in an object', 'responses', JSON.stringify({ id: 'r', output: { 0: { ...good, ...evil } } })],
  [
    'another call under an id that was judged',
    'responsesStream',
    named([created, added, done, completed([{ ...good, ...evil }])]),
  ],
  [
    'arguments of the wrong item',
    'responsesStream',
    named([
      created,
      { ...added, output_index: 1, item: { ...good, id: 'fc_2', call_id: 'call_2', name: 'http_get', arguments: '' } },
      added,
      { type: 'response.function_call_arguments.delta', output_index: 0, item_id: 'fc_1', delta: url },
    ] as Readonly<{ type: string }>[]),
  ],
  ['arguments after the block', 'messagesStream', named([start, begin(0, 'http_get'), stop(0), input(0, url), ...end])],
  [
    'arguments of the wrong block',
    'messagesStream',
    named([
      { ...start, message: { ...start.message, content: [{ type: 'text', text: '' }] } } as typeof start,
      ...[begin(0, 'http_get'), begin(1, 'ok'), input(1, url), stop(0), stop(1), ...end],
    ]),
  ],
  [
    'candidates in an object',
    'generate',
    JSON.stringify({ candidates: { 0: { content: { parts: [{ functionCall: { name: 'send_mail', args: {} } }] } } } }),
  ],
])('a program with its provider’s package gets no call behind %s', async (_, program, text) => {
  answer = { type: program.endsWith('Stream') ? 'text/event-stream' : 'application/json', text }
  const seen = (base: string): Promise<string> =>
    programs[program](base).then(
      (value) => JSON.stringify(value),
      (error: unknown) => `refused: ${String(error)}`,
    )
  const harmful = /"name":"send_mail"|"name":"http_get".*http:\/\/evil|http:\/\/evil.*"name":"http_get"/
  expect(await seen(direct)).toMatch(harmful)
  expect(await seen(judged)).not.toMatch(harmful)
})
