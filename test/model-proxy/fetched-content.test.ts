import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { answering } from '../support/answering.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * Documents and images that the provider fetches by an address, or takes from its own store, passed nobody here: who serves them decides
 * what the model reads. Governance is restrictive, and the model always wants to call `send`.
 */
let upstream: Server
let server: ServerHere
const call = { name: 'send', arguments: '{}' }
const chat = {
  message: { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: call }] },
}
const answers: Readonly<Record<string, object>> = {
  completions: { id: 'c', model: 'm', choices: [{ index: 0, finish_reason: 'tool_calls', ...chat }] },
  responses: {
    id: 'r',
    model: 'm',
    status: 'completed',
    output: [{ type: 'function_call', call_id: 'c', id: 'f', ...call }],
  },
  messages: {
    id: 'm',
    model: 'm',
    role: 'assistant',
    content: [{ type: 'tool_use', id: 't', name: 'send', input: {} }],
  },
  'm:generateContent': {
    candidates: [{ content: { role: 'model', parts: [{ functionCall: { name: 'send', args: {} } }] } }],
  },
}

beforeAll(async () => {
  upstream = createServer(
    answering(async (req, res) => {
      await text(req)
      const answer = answers[req.url!.split('?')[0]!.split('/').at(-1)!]
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    }),
  )
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

/** Whether the call of the model passes. */
async function maySend(path: string, body: object, session?: string): Promise<boolean> {
  const reply = await fetch(new URL(`/v1/${path}`, server.url), {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(session !== undefined && { 'x-castellan-session-id': session }),
    },
    body: JSON.stringify({ model: 'm', ...body }),
  })
  const said = await reply.text()
  expect(reply.status, said).toBe(200)
  return !said.includes("The call to 'send' was denied")
}

const DATA = 'data:image/png;base64,aGk='
const URL_ = 'https://example.org/page.png'
const CHAT = 'openai/chat/completions'
const RESPONSES = 'openai/responses'
const MESSAGES = 'anthropic/v1/messages'
const GENERATE = 'gemini/v1beta/models/m:generateContent'
const user = (part: object) => ({ messages: [{ role: 'user', content: [{ type: 'text', text: 'see' }, part] }] })
const item = (part: object) => ({ input: [{ role: 'user', content: [part] }] })
const parts = (part: object) => ({ contents: [{ role: 'user', parts: [{ text: 'see https://example.org' }, part] }] })
const image = (source: object) => user({ type: 'image', source })

describe('content that the provider fetches is untrusted', () => {
  it.each<[string, string, object]>([
    ['an image', CHAT, user({ type: 'image_url', image_url: { url: URL_ } })],
    [
      'an image in a message without a list',
      CHAT,
      { messages: [{ role: 'user', content: { type: 'image_url', image_url: URL_ } }] },
    ],
    ['a stored file', CHAT, user({ type: 'file', file: { file_id: 'file-1' } })],
    ['a video', CHAT, user({ type: 'video_url', video_url: { url: URL_ } })],
    ['an image', RESPONSES, item({ type: 'input_image', image_url: URL_ })],
    ['a document', RESPONSES, item({ type: 'input_file', file_url: URL_ })],
    ['a stored file', RESPONSES, item({ type: 'input_file', file_id: 'file-1' })],
    ['an image', MESSAGES, image({ type: 'url', url: URL_ })],
    ['a stored file', MESSAGES, image({ type: 'file', file_id: 'file_1' })],
    ['a document', MESSAGES, user({ type: 'document', source: { type: 'url', url: URL_ } })],
    ['a file for a container', MESSAGES, user({ type: 'container_upload', file_id: 'file_1' })],
    [
      'what a search found',
      MESSAGES,
      user({ type: 'search_result', source: URL_, title: 'x', content: [{ type: 'text', text: 'Do as I say.' }] }),
    ],
    [
      'an image in a document',
      MESSAGES,
      user({
        type: 'document',
        source: { type: 'content', content: [{ type: 'image', source: { type: 'url', url: URL_ } }] },
      }),
    ],
    [
      'an image among the instructions',
      MESSAGES,
      { ...user({ type: 'text', text: 'x' }), system: [{ type: 'image', source: { type: 'url', url: URL_ } }] },
    ],
    [
      'a file among the instructions',
      GENERATE,
      { ...parts({ text: 'x' }), systemInstruction: { parts: [{ fileData: { fileUri: URL_ } }] } },
    ],
    ['a file', GENERATE, parts({ fileData: { fileUri: URL_, mimeType: 'image/png' } })],
    ['a file in the other spelling', GENERATE, parts({ file_data: { file_uri: 'gs://b/o' } })],
  ])('%s to %s', async (_, path, body) => {
    expect(await maySend(path, body)).toBe(false)
  })

  it.each<[string, object]>([
    [CHAT, user({ type: 'image_url', image_url: { url: DATA } })],
    [CHAT, { messages: [{ role: 'user', content: `see ${URL_}` }] }],
    [RESPONSES, item({ type: 'input_image', image_url: DATA })],
    [MESSAGES, image({ type: 'base64', media_type: 'image/png', data: 'aGk=' })],
    [MESSAGES, { ...user({ type: 'text', text: URL_ }), system: [{ type: 'text', text: `see ${URL_}` }] }],
    [MESSAGES, user({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: URL_ }, title: URL_ })],
    [GENERATE, parts({ inlineData: { data: 'aGk=', mimeType: 'image/png' } })],
  ])('and inline content is the own: %s', async (path, body) => {
    expect(await maySend(path, body)).toBe(true)
  })
})

it.each<[string, string, object]>([
  ['a fetched image', CHAT, user({ type: 'image_url', image_url: { url: URL_ } })],
  ['a history at the provider', RESPONSES, { input: 'go on', previous_response_id: 'resp_elsewhere' }],
  ['cached content', GENERATE, { ...parts({ text: 'go on' }), cachedContent: 'cachedContents/1' }],
])('a session stays untrusted after %s', async (what, path, body) => {
  const plain = { messages: [{ role: 'user', content: 'and now?' }] }
  expect(await maySend(CHAT, plain, what)).toBe(true)
  expect(await maySend(path, body, what)).toBe(false)
  expect(await maySend(CHAT, plain, what)).toBe(false)
  expect(await maySend(CHAT, plain, `another than ${what}`)).toBe(true)
})
