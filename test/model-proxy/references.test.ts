import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { answering } from '../support/answering.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * Requests that refer to what a provider has stored, instead of repeating it. What passed through here is known by the ids of answers
 * and of their items, with its trust; everything else is a history that nobody judged. Governance is restrictive.
 */
type Sent = Readonly<{ input: readonly Record<string, unknown>[] }>
type Item = Readonly<Record<string, unknown>>
let upstream: Server
let server: ServerHere
let client: OpenAI
let output: readonly Item[] = []
let seen: Sent[] = []
let count = 0

beforeAll(async () => {
  upstream = createServer(
    answering(async (req, res) => {
      const body = await json(req)
      seen.push(body as Sent)
      const answer = { id: `resp_${++count}`, object: 'response', status: 'completed', model: 'm', output }
      if ((body as { stream?: boolean }).stream !== true) {
        res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
        return
      }
      const events = [
        { type: 'response.created', response: { ...answer, status: 'in_progress', output: [] } },
        ...output.flatMap((item, output_index) => [
          { type: 'response.output_item.added', output_index, item },
          { type: 'response.output_item.done', output_index, item },
        ]),
        { type: 'response.completed', response: answer },
      ]
      const numbered = events.map((event, sequence_number) => ({ ...event, sequence_number }))
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.end(numbered.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''))
    }),
  )
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
  const dataDir = newDataDir()
  const providers = [{ name: 'openai', type: 'openai', endpoint, models: [{ alias: 'default', model: 'm' }] }]
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    JSON.stringify({ models: { providers }, governance: 'restrictive', rate_limits: { enabled: false } }),
  )
  server = await startServerHere({ dataDir })
  client = new OpenAI({ apiKey: 'castellan', baseURL: `${new URL(server.url).origin}/v1/openai`, maxRetries: 0 })
  const trusted = { toolId: 'client:look', action: 'mark_as_trusted', conditions: [] }
  const made = await fetch(`${new URL(server.url).origin}/v1/tools/create_trusted_data_policy`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(trusted),
  })
  expect(made.status).toBe(200)
})
afterAll(async () => {
  await server.stop()
  upstream.close()
  upstream.closeAllConnections()
})
beforeEach(() => {
  seen = []
})

let next = 0
const call = (name: string): Item => {
  const id = ++next
  return { type: 'function_call', id: `fc_${id}`, call_id: `call_${id}`, name, arguments: '{}', status: 'completed' }
}
const message = (text: string): Item => ({
  ...{ type: 'message', id: `msg_${++next}`, role: 'assistant', status: 'completed' },
  content: [{ type: 'output_text', text, annotations: [] }],
})
const tools = ['look', 'read', 'send'].map(
  (name) => ({ type: 'function', name, parameters: {}, strict: false }) as const,
)
type Input = OpenAI.Responses.ResponseCreateParamsNonStreaming
type Text = NonNullable<Input['input']>

async function ask(answer: readonly Item[], input: unknown, more: Partial<Input> = {}) {
  output = answer
  return await client.responses.create({ model: 'm', tools, ...more, input: input as Text, stream: false })
}
async function askStream(answer: readonly Item[], input: unknown) {
  output = answer
  const events = await client.responses.create({ model: 'm', tools, input: input as Text, stream: true })
  for await (const event of events) if (event.type === 'response.completed') return event.response
  throw new Error('the stream has no end')
}
const said = (content: string) => ({ role: 'user', content })
const refer = (item: Item) => ({ type: 'item_reference', id: item['id'] })
const resultOf = (item: Item, text = 'Do as I say.') => ({
  ...{ type: 'function_call_output', call_id: item['call_id'], output: text },
})
/** Whether a call of `send` passes after this input. */
const maySend = async (input: unknown, more: Partial<Input> = {}): Promise<boolean> =>
  (await ask([call('send')], input, more)).output.some(({ type }) => type === 'function_call')

it('an item of an answer that passed is as trusted as its conversation', async () => {
  const hello = message('Hello.')
  await ask([hello], [said('hi 1')])
  expect(await maySend([said('hi 1'), refer(hello), said('send it')])).toBe(true)
  const streamed = message('Hello.')
  await askStream([streamed], [said('hi 2')])
  expect(await maySend([said('hi 2'), refer(streamed), said('send it')])).toBe(true)
  expect(await maySend([said('hi 2'), { id: streamed['id'] }, said('send it')])).toBe(true)
})

it.each([
  ['by its type', { type: 'item_reference', id: 'msg_elsewhere' }],
  ['without a type', { id: 'msg_elsewhere' }],
  ['with an empty type', { type: null, id: 'msg_elsewhere' }],
  ['without an id', { type: 'item_reference' }],
  ['to a compacted history', { type: 'compaction', id: 'cmp_elsewhere', encrypted_content: 'opaque' }],
])('a reference to something that nobody saw is untrusted: %s', async (_, reference) => {
  expect(await maySend([said(`x ${++next}`), reference])).toBe(false)
  expect(await maySend(reference)).toBe(false)
})

it('the result of a call that is only referred to is that of its tool', async () => {
  const looked = call('look')
  await ask([looked], [said('look')])
  expect(await maySend([said('look'), refer(looked), resultOf(looked)])).toBe(true)
  const read = call('read')
  const answer = await ask([read], [said('read')])
  expect(await maySend([said('read'), refer(read), resultOf(read)])).toBe(false)
  // What was read stays read, however the request begins.
  expect(await maySend([said('anew'), refer(read)])).toBe(false)
  expect(await maySend('go on', { previous_response_id: answer.id })).toBe(false)
  const other = call('look')
  const { id } = await ask([other], [said('look again')])
  expect(await maySend([resultOf(other)], { previous_response_id: id })).toBe(true)
})

it('what a tool of the provider returned counts for whatever refers to it', async () => {
  const search = { type: 'web_search_call', id: 'ws_1', status: 'completed' }
  const found = message('I found it.')
  const { id } = await ask([search, found], [said('search')])
  expect(await maySend([said('search'), refer(found)])).toBe(false)
  expect(await maySend('go on', { previous_response_id: id })).toBe(false)
})

it('a text in place of a refused call, which the provider does not have, is sent to it', async () => {
  const read = call('read')
  await ask([read], [said('refused')])
  const inputs = [said('refused'), refer(read), resultOf(read)]
  const refused = await ask([call('send')], inputs)
  const [text] = refused.output
  expect(text).toMatchObject({ type: 'message' })
  await ask([message('I could not.')], [...inputs, refer(text as unknown as Item), said('Why?')])
  expect(seen.at(-1)!.input[3]).toMatchObject({ type: 'message', role: 'assistant' })
  expect(JSON.stringify(seen.at(-1)!.input[3])).toContain("The call to 'send' was denied")
})
