import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { generateText, isStepCount, Output, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { answering } from '../support/answering.ts'
import { dialectProviders } from '../support/model-dialects.ts'
import { newDataDir } from '../support/real-server.ts'
import { type Line, type ScriptedModel, type SeenRequest, startScriptedModel } from '../support/scripted-model.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What the packages of the providers, and the AI SDK over them, can do, through the server with a policy in force. */
type Fields = Record<string, unknown>
let canned: Server
let scripted: ScriptedModel
let server: ServerHere
let origin: string
let policyId: string
let seen: { path: string; body: Fields }[] = []
let answer: (req: IncomingMessage, res: ServerResponse, body: Fields) => void
let script: (request: SeenRequest) => Line = () => ({ text: 'hello' })

beforeAll(async () => {
  canned = createServer(
    answering(async (req, res) => {
      const body = req.method === 'POST' ? await json(req) : {}
      seen.push({ path: req.url!, body: body as Fields })
      answer(req, res, body as Fields)
    }),
  )
  await new Promise<void>((resolve) => canned.listen(0, '127.0.0.1', resolve))
  scripted = await startScriptedModel((request) => script(request))
  const cannedUrl = `http://127.0.0.1:${(canned.address() as AddressInfo).port}`
  const cannedProviders = dialectProviders(cannedUrl).map((provider) => ({
    ...provider,
    name: `canned-${provider.name}`,
    models: [{ alias: `canned-${provider.name}`, model: 'm' }],
  }))
  const dataDir = newDataDir()
  const config = {
    models: { providers: [...dialectProviders(scripted.url), ...cannedProviders] },
    model_proxy: { answer_timeout_secs: 1 },
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  process.env['MODEL_KEY'] = 'k'
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
  const made = await fetch(`${origin}/v1/tools/create_tool_invocation_policy`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ toolId: 'client:send', conditions: [], action: 'block_always', reason: 'never' }),
  })
  policyId = ((await made.json()) as { policy: { id: string } }).policy.id
})
afterAll(async () => {
  await server.stop()
  await scripted.stop()
  canned.close()
  canned.closeAllConnections()
  delete process.env['MODEL_KEY']
})
afterEach(() => {
  seen = []
})

const send = (value: unknown, headers: Record<string, string> = {}) => {
  answer = (_, res) => res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
}
const openai = () => new OpenAI({ baseURL: `${origin}/v1/canned-openai`, apiKey: 'castellan', maxRetries: 0 })
const anthropic = () => new Anthropic({ baseURL: `${origin}/v1/canned-anthropic`, apiKey: 'castellan', maxRetries: 0 })
const google = () => new GoogleGenAI({ apiKey: 'castellan', httpOptions: { baseUrl: `${origin}/v1/canned-gemini` } })
const PNG = 'iVBORw0KGgo='

describe('the package openai', () => {
  const completion = (content: string) => ({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content, refusal: null } }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  })

  it('sends schemas, images and files, and reads rate limits', async () => {
    send(completion('{"city":"Rome"}'), { 'x-ratelimit-remaining-tokens': '77', 'x-request-id': 'req_1' })
    const content = [
      { type: 'text' as const, text: 'Where?' },
      { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${PNG}` } },
      { type: 'file' as const, file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERg==' } },
    ]
    const response_format = zodResponseFormat(z.object({ city: z.string() }), 'place')
    const request = { model: 'm', messages: [{ role: 'user' as const, content }], response_format }
    const { data, response, request_id } = await openai().chat.completions.parse(request).withResponse()
    expect(data.choices[0]!.message.parsed).toEqual({ city: 'Rome' })
    expect(response.headers.get('x-ratelimit-remaining-tokens')).toBe('77')
    expect(request_id).toBe('req_1')
    expect(seen[0]!.body).toMatchObject({ messages: [{ content }], response_format: { type: 'json_schema' } })
  })

  it('embeds, counts and lists', async () => {
    send({
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
      model: 'e',
      usage: { prompt_tokens: 1, total_tokens: 1 },
    })
    const made = await openai().embeddings.create({ model: 'e', input: 'x', encoding_format: 'float' })
    expect(made.data[0]!.embedding).toEqual([0.5])
    send({ object: 'response.input_tokens', input_tokens: 9 })
    expect((await openai().responses.inputTokens.count({ model: 'm', input: 'x' })).input_tokens).toBe(9)
    send({ object: 'list', data: [{ id: 'm', object: 'model', created: 1, owned_by: 'x' }] })
    expect((await openai().models.list()).data[0]!.id).toBe('m')
    expect(seen.map(({ path }) => path)).toEqual(['/v1/embeddings', '/v1/responses/input_tokens', '/v1/models'])
  })

  it('does not get back what is stored at the provider, because nobody would have judged it', async () => {
    await expect(openai().responses.retrieve('resp_1')).rejects.toMatchObject({ code: 'ERR_ROUTE_NOT_FOUND' })
    expect(seen).toEqual([])
  })

  it('is told in time that the provider does not answer', async () => {
    answer = () => {}
    const asked = openai().chat.completions.create({ model: 'm', messages: [] })
    await expect(asked).rejects.toMatchObject({ status: 504, code: 'ERR_TIMED_OUT' })
  })

  it('cancels a stream, also while a call is held', async () => {
    const left = Promise.withResolvers<void>()
    answer = (_, res) => {
      res.on('close', () => left.resolve())
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      const events = [
        { choices: [{ index: 0, delta: { role: 'assistant', content: 'I send.' } }] },
        {
          choices: [
            { index: 0, delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'look', arguments: '{' } }] } },
          ],
        },
      ]
      for (const event of events) res.write(`data: ${JSON.stringify(event)}\n\n`)
    }
    const tools = [{ type: 'function' as const, function: { name: 'look', parameters: {} } }]
    const stream = await openai().chat.completions.create({ model: 'm', messages: [], tools, stream: true })
    const deltas = []
    for await (const { choices } of stream) {
      deltas.push(choices[0]!.delta)
      stream.controller.abort()
    }
    expect(deltas).toEqual([{ role: 'assistant', content: 'I send.' }])
    await left.promise
  })

  it('goes on after a refusal in an answer that the provider stores', async () => {
    const call = {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_1',
      name: 'send',
      arguments: '{}',
      status: 'completed',
    }
    const stored = (id: string, output: readonly object[]) => ({
      id,
      object: 'response',
      status: 'completed',
      model: 'm',
      output,
    })
    const tools = [{ type: 'function' as const, name: 'send', parameters: {}, strict: false }]
    send(stored('resp_1', [call]))
    const first = await openai().responses.create({ model: 'm', input: 'Send it.', tools })
    expect(first.output_text).toContain(policyId)
    send(stored('resp_2', []))
    await openai().responses.create({ model: 'm', input: 'Go on.', tools, previous_response_id: first.id })
    expect(seen[1]!.body['input']).toEqual([
      { type: 'function_call_output', call_id: 'call_1', output: first.output_text },
      { role: 'user', content: 'Go on.' },
    ])
  })
})

describe('the package @anthropic-ai/sdk', () => {
  const message = (content: readonly object[], stop_reason: string) => ({
    id: 'msg',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content,
    stop_reason,
    usage: { input_tokens: 1, output_tokens: 1 },
  })
  const ask = { model: 'm', max_tokens: 10, messages: [{ role: 'user' as const, content: 'x' }] }

  it('counts, lists, and sends images and files', async () => {
    send({ input_tokens: 7 })
    expect((await anthropic().messages.countTokens(ask)).input_tokens).toBe(7)
    send({ data: [{ id: 'm', type: 'model', display_name: 'M', created_at: '2026-01-01T00:00:00Z' }], has_more: false })
    expect((await anthropic().models.list()).data[0]!.id).toBe('m')
    send(message([{ type: 'text', text: 'ok' }], 'end_turn'), { 'anthropic-ratelimit-requests-remaining': '3' })
    const content = [
      { type: 'image' as const, source: { type: 'base64' as const, media_type: 'image/png' as const, data: PNG } },
      { type: 'document' as const, source: { type: 'text' as const, media_type: 'text/plain' as const, data: 'x' } },
    ]
    const { response } = await anthropic()
      .messages.create({ ...ask, messages: [{ role: 'user', content }] })
      .withResponse()
    expect(response.headers.get('anthropic-ratelimit-requests-remaining')).toBe('3')
    expect(seen.at(-1)!.body['messages']).toEqual([{ role: 'user', content }])
  })

  it('keeps its thoughts when a call is refused', async () => {
    const thinking = { type: 'thinking', thinking: 'hm', signature: 'sig' }
    send(message([thinking, { type: 'tool_use', id: 't', name: 'send', input: {} }], 'tool_use'))
    const tools = [{ name: 'send', input_schema: { type: 'object' as const } }]
    const heard = await anthropic().messages.create({ ...ask, tools })
    expect(heard.content).toMatchObject([thinking, { type: 'text', text: expect.stringContaining(policyId) }])
    expect(heard.stop_reason).toBe('end_turn')
  })
})

it('the package @google/genai counts, embeds and sends files', async () => {
  send({ totalTokens: 5 })
  expect((await google().models.countTokens({ model: 'm', contents: 'x' })).totalTokens).toBe(5)
  send({ embeddings: [{ values: [0.5] }], embedding: { values: [0.5] } })
  const made = await google().models.embedContent({ model: 'm', contents: 'x' })
  expect(made.embeddings![0]!.values).toEqual([0.5])
  send({ candidates: [{ content: { parts: [{ text: '{"a":1}' }] }, finishReason: 'STOP' }] })
  const contents = [{ inlineData: { mimeType: 'image/png', data: PNG } }]
  const config = { responseMimeType: 'application/json', responseJsonSchema: { type: 'object' } }
  const heard = await google().models.generateContent({ model: 'm', contents, config })
  expect(heard.text).toBe('{"a":1}')
  expect(seen.at(-1)!.body).toMatchObject({
    contents: [{ parts: contents }],
    generationConfig: { responseJsonSchema: { type: 'object' } },
  })
})

const models = () => ({
  'OpenAI, Responses': createOpenAI({ baseURL: `${origin}/v1/openai`, apiKey: 'castellan' }).responses('gpt-4o'),
  'OpenAI, Chat Completions': createOpenAI({ baseURL: `${origin}/v1/openai`, apiKey: 'castellan' }).chat('gpt-4o'),
  Anthropic: createAnthropic({ baseURL: `${origin}/v1/anthropic/v1`, apiKey: 'castellan' })('claude-opus-4-5'),
  Google: createGoogleGenerativeAI({ baseURL: `${origin}/v1/gemini/v1beta`, apiKey: 'castellan' })('gemini-2.5-flash'),
})

describe.each(['OpenAI, Responses', 'OpenAI, Chat Completions', 'Anthropic', 'Google'] as const)(
  'the AI SDK, %s',
  (name) => {
    const looked: unknown[] = []
    const tools = {
      look: tool({
        inputSchema: z.object({ at: z.string() }),
        execute: ({ at }) => {
          looked.push(at)
          return `seen ${at}`
        },
      }),
      send: tool({ inputSchema: z.object({}), execute: () => 'sent' }),
    }
    const obeying = ({ messages }: SeenRequest): Line => {
      if (messages.at(-1)!.role === 'tool') return { text: 'Done.' }
      return {
        toolCalls: ['a', 'b']
          .map((at) => ({ name: 'look', arguments: { at } }))
          .concat({ name: 'send', arguments: {} as never }),
      }
    }

    it('runs its tools in steps, without the one that is refused', async () => {
      script = obeying
      const whole = await generateText({
        model: models()[name],
        prompt: 'x',
        tools,
        stopWhen: isStepCount(3),
        maxRetries: 0,
      })
      expect(whole.text).toBe('Done.')
      expect(whole.steps[0]!.toolCalls.map(({ toolName }) => toolName)).toEqual(['look', 'look'])
      expect(whole.steps[0]!.text).toContain(policyId)
      const streamed = streamText({
        model: models()[name],
        prompt: 'x',
        tools,
        stopWhen: isStepCount(3),
        maxRetries: 0,
      })
      expect(await streamed.text).toBe('Done.')
      expect((await streamed.steps)[0]!.toolResults.map(({ output }) => output)).toEqual(['seen a', 'seen b'])
      expect(looked.splice(0)).toEqual(['a', 'b', 'a', 'b'])
    })

    it('answers in a schema, and leaves when it is told to', async () => {
      script = () => ({ text: '{"city":"Rome"}' })
      const output = Output.object({ schema: z.object({ city: z.string() }) })
      const placed = await generateText({ model: models()[name], prompt: 'x', output, maxRetries: 0 })
      expect(placed.output).toEqual({ city: 'Rome' })
      const leaving = new AbortController()
      script = () => {
        leaving.abort()
        return { text: 'late' }
      }
      const asked = generateText({ model: models()[name], prompt: 'x', abortSignal: leaving.signal, maxRetries: 0 })
      await expect(asked).rejects.toMatchObject({ name: 'AbortError' })
    })
  },
)
