import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * Reasoning that only the provider can read comes back in the history of a request. Nobody here sees what it says, so it is as trusted
 * as the conversation in which it passed. Governance is restrictive, and the model always wants to call `send`.
 */
let upstream: Server
let server: ServerHere
let count = 0
/** What the answers of the model contain besides the call. */
let hidden = ''

const blocks = () => [
  { type: 'thinking', thinking: 'hm', signature: hidden },
  { type: 'redacted_thinking', data: `${hidden}-redacted` },
  { type: 'tool_use', id: `t${++count}`, name: 'send', input: {} },
]
const items = () => [
  { type: 'reasoning', id: `rs_${hidden}`, summary: [], encrypted_content: hidden },
  { type: 'function_call', call_id: `c${++count}`, id: `f${count}`, name: 'send', arguments: '{}' },
]
const partsOf = () => [{ thoughtSignature: hidden, functionCall: { name: 'send', args: {} } }]
const event = (data: object & { type?: string }) =>
  `${data.type === undefined ? '' : `event: ${data.type}\n`}data: ${JSON.stringify(data)}\n\n`

function messagesStream(): string {
  const half = Math.ceil(hidden.length / 2)
  const delta = (signature: string) =>
    event({ type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature } } as object)
  const start = {
    type: 'content_block_start',
    index: 0,
    content_block: { type: 'thinking', thinking: '', signature: '' },
  }
  const answer = { id: 'm', model: 'm', role: 'assistant', content: [] }
  return [
    event({ type: 'message_start', message: answer } as object),
    event(start as object),
    delta(hidden.slice(0, half)),
    delta(hidden.slice(half)),
    event({ type: 'content_block_stop', index: 0 } as object),
    event({ type: 'message_stop' }),
  ].join('')
}
const responsesStream = (): string => {
  const [reasoning] = items()
  return [
    event({ type: 'response.output_item.done', output_index: 0, sequence_number: 0, item: reasoning } as object),
    event({ type: 'response.completed', sequence_number: 1, response: { id: 'r', model: 'm', output: [] } } as object),
  ].join('')
}
const wholes: Readonly<Record<string, () => object>> = {
  messages: () => ({ id: 'm', model: 'm', role: 'assistant', content: blocks() }),
  responses: () => ({ id: `r${++count}`, model: 'm', status: 'completed', output: items() }),
  'm:generateContent': () => ({ candidates: [{ content: { role: 'model', parts: partsOf() } }] }),
}
const streams: Readonly<Record<string, () => string>> = {
  messages: messagesStream,
  responses: responsesStream,
  'm:streamGenerateContent': () => event({ candidates: [{ content: { role: 'model', parts: partsOf() } }] } as object),
}

beforeAll(async () => {
  upstream = createServer((req, res) => {
    void text(req).then((body) => {
      const operation = req.url!.split('?')[0]!.split('/').at(-1)!
      const isStream = operation === 'm:streamGenerateContent' || (JSON.parse(body) as { stream?: boolean }).stream
      const type = isStream === true ? 'text/event-stream' : 'application/json'
      const answer = isStream === true ? streams[operation]!() : JSON.stringify(wholes[operation]!())
      res.writeHead(200, { 'content-type': type }).end(answer)
    })
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const dataDir = newDataDir()
  const providers = ['openai', 'anthropic', 'gemini'].map((type) => ({
    ...{ name: type, type, endpoint: `${endpoint}/v1` },
    models: [{ alias: type, model: 'm' }],
  }))
  const config = { models: { providers }, governance: 'restrictive', rate_limits: { enabled: false } }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  server = await startServerHere({ dataDir })
})
afterAll(async () => {
  await server.stop()
  upstream.close()
  upstream.closeAllConnections()
})

async function post(path: string, body: object): Promise<string> {
  const reply = await fetch(new URL(`/v1/${path}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const said = await reply.text()
  expect(reply.status, said).toBe(200)
  return said
}
const maySend = async (path: string, body: object): Promise<boolean> =>
  !(await post(path, body)).includes("The call to 'send' was denied")

const MESSAGES = 'anthropic/v1/messages'
const RESPONSES = 'openai/responses'
const GENERATE = 'gemini/v1beta/models/m:generateContent'
const ask = (subject: string) => ({ role: 'user', content: subject })

type Kind = Readonly<{
  path: string
  stream?: string
  first(subject: string): object
  next(subject: string, part: string): object
}>
const kinds: Readonly<Record<string, Kind>> = {
  'a signature': {
    path: MESSAGES,
    first: (subject) => ({ model: 'm', max_tokens: 9, messages: [ask(subject)] }),
    next: (subject, signature) => {
      const said = { role: 'assistant', content: [{ type: 'thinking', thinking: 'hm', signature }] }
      return { model: 'm', max_tokens: 9, messages: [ask(subject), said, ask('go on')] }
    },
  },
  'encrypted reasoning': {
    path: RESPONSES,
    first: (subject) => ({ model: 'm', store: false, input: [ask(subject)] }),
    next: (subject, encrypted_content) => {
      const reasoning = { type: 'reasoning', id: 'rs_other', summary: [], encrypted_content }
      const said = { role: 'assistant', content: [{ type: 'output_text', text: 'hm' }] }
      return { model: 'm', store: false, input: [ask(subject), reasoning, said, ask('go on')] }
    },
  },
  'reasoning by its id': {
    path: RESPONSES,
    first: (subject) => ({ model: 'm', input: [ask(subject)] }),
    next: (subject, part) => {
      const said = { role: 'assistant', content: [{ type: 'output_text', text: 'hm' }] }
      const reasoning = { type: 'reasoning', id: `rs_${part}`, summary: [] }
      return { model: 'm', input: [ask(subject), reasoning, said, ask('go on')] }
    },
  },
  'a thought signature': {
    path: GENERATE,
    stream: 'gemini/v1beta/models/m:streamGenerateContent?alt=sse',
    first: (subject) => ({ contents: [{ role: 'user', parts: [{ text: subject }] }] }),
    next: (subject, thoughtSignature) => ({
      contents: [
        { role: 'user', parts: [{ text: subject }] },
        { role: 'model', parts: [{ text: 'hm', thoughtSignature }] },
        { role: 'user', parts: [{ text: 'go on' }] },
      ],
    }),
  },
}

it.each(Object.entries(kinds))('%s that passed here is as trusted as its conversation', async (name, kind) => {
  hidden = `whole-${name}`
  await post(kind.path, kind.first(`first ${name}`))
  expect(await maySend(kind.path, kind.next(`first ${name}`, hidden))).toBe(true)
  hidden = `stream-${name}`
  await post(kind.stream ?? kind.path, {
    ...kind.first(`second ${name}`),
    ...(kind.stream === undefined && { stream: true }),
  })
  expect(await maySend(kind.path, kind.next(`second ${name}`, hidden))).toBe(true)
})

it.each(Object.entries(kinds))('%s from elsewhere makes its conversation untrusted', async (name, kind) => {
  const subject = `third ${name}`
  expect(await maySend(kind.path, kind.next(subject, `strange-${name}`))).toBe(false)
  // Also when the program leaves it out again.
  hidden = `known-${name}`
  await post(kind.path, kind.first(subject))
  const body = kind.next(subject, `strange-${name}`)
  expect(await maySend(kind.path, body)).toBe(false)
})

it('redacted thinking from elsewhere makes its conversation untrusted, and a stand-in does not', async () => {
  const messages = (data: string) => [
    ask('redacted'),
    { role: 'assistant', content: [{ type: 'redacted_thinking', data }] },
    ask('go on'),
  ]
  expect(await maySend(MESSAGES, { model: 'm', max_tokens: 9, messages: messages('strange') })).toBe(false)
  const next = kinds['a thought signature']!.next('a stand-in', 'skip_thought_signature_validator')
  expect(await maySend(GENERATE, next)).toBe(true)
})

it('what passed in an untrusted conversation makes another one untrusted, and a person can clear that', async () => {
  const kind = kinds['a signature']!
  hidden = 'of-the-first'
  const image = { type: 'image', source: { type: 'url', url: 'https://example.org/page.png' } }
  await post(MESSAGES, { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: [image] }] })
  hidden = 'later'
  expect(await maySend(MESSAGES, kind.next('carried', 'of-the-first'))).toBe(false)
  const tool = async (name: string, args: object) => {
    const run = ['call', name, '--data-dir', server.dataDir, '--args', JSON.stringify(args)]
    const { stdout } = await runCastellanHere(run, { home: server.dataDir })
    return JSON.parse(stdout) as { others: { context: string; cause: { kind: string } | null }[] }
  }
  const { others } = await tool('context_trust_get', { limit: 100 })
  for (const { context } of others) await tool('context_trust_clear', { context })
  expect(await maySend(MESSAGES, kind.next('carried', 'of-the-first'))).toBe(true)
})
