import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * A model that does one thing, in the four protocols that agent programs speak: asked with tools, it calls the wanted one;
 * given the answer of a tool, it ends. It remembers what it was shown.
 */
export type ModelStage = Readonly<{
  origin: string
  /** Names of the tools in the request that was answered with a call, as the program shows them to its model. */
  displayedTools(): readonly string[]
  /** Everything that came as the answer of the tool. */
  toolAnswer(): string | undefined
  close(): Promise<void>
}>

type Json = Record<string, unknown>
/** `adds` are fields that the program itself put into the tool's schema, which a model fills in. */
type Wanted = Readonly<{ name: string; namespace?: string; adds?: Json }>
type Protocol = Readonly<{
  tools(body: Json): readonly Wanted[]
  conversation(body: Json): unknown
  call(wanted: Wanted, args: Json): readonly Json[]
  end(text: string): readonly Json[]
}>

const list = (value: unknown): readonly Json[] => (Array.isArray(value) ? (value as Json[]) : [])
const nameIn = (value: unknown): string => String((value as Json | undefined)?.['name'] ?? '')

const chat: Protocol = {
  tools: (body) => list(body['tools']).map((tool) => ({ name: nameIn(tool['function']) })),
  conversation: (body) => list(body['messages']).filter(({ role }) => role === 'tool'),
  call: ({ name }, args) => {
    const call = { index: 0, id: 'call_1', type: 'function', function: { name, arguments: JSON.stringify(args) } }
    return [chunk({ role: 'assistant', content: null, tool_calls: [call] }), chunk({}, 'tool_calls')]
  },
  end: (text) => [chunk({ role: 'assistant', content: text }), chunk({}, 'stop')],
}

const chunk = (delta: Json, finish: string | null = null): Json => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'mock-model',
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...(finish === null ? {} : { usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }),
})

const anthropic: Protocol = {
  tools: (body) => list(body['tools']).map((tool) => ({ name: nameIn(tool) })),
  conversation: (body) =>
    list(body['messages']).flatMap(({ content }) => list(content).filter(({ type }) => type === 'tool_result')),
  call: ({ name }, args) =>
    message({ type: 'tool_use', id: 'toolu_1', name, input: {} }, 'tool_use', {
      type: 'input_json_delta',
      partial_json: JSON.stringify(args),
    }),
  end: (text) => message({ type: 'text', text: '' }, 'end_turn', { type: 'text_delta', text }),
}

function message(block: Json, reason: string, delta: Json): readonly Json[] {
  const usage = { input_tokens: 1, output_tokens: 1 }
  const head = { id: 'msg_1', type: 'message', role: 'assistant', model: 'mock-model', content: [] }
  return [
    { type: 'message_start', message: { ...head, stop_reason: null, stop_sequence: null, usage } },
    { type: 'content_block_start', index: 0, content_block: block },
    { type: 'content_block_delta', index: 0, delta },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ]
}

const responses: Protocol = {
  tools: (body) =>
    list(body['tools']).flatMap((tool) =>
      tool['type'] === 'namespace'
        ? list(tool['tools']).map((inner) => ({ name: nameIn(inner), namespace: nameIn(tool) }))
        : [{ name: nameIn(tool) }],
    ),
  conversation: (body) => list(body['input']).filter(({ type }) => type === 'function_call_output'),
  call: ({ name, namespace }, args) =>
    response({
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_1',
      status: 'completed',
      name,
      ...(namespace === undefined ? {} : { namespace }),
      arguments: JSON.stringify(args),
    }),
  end: (text) =>
    response({
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text, annotations: [] }],
    }),
}

function response(item: Json): readonly Json[] {
  const head = { id: 'resp_1', object: 'response', created_at: 1, model: 'mock-model' }
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  return [
    { type: 'response.created', response: { ...head, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: { ...head, status: 'completed', output: [item], usage } },
  ]
}

const gemini: Protocol = {
  tools: (body) =>
    list(body['tools']).flatMap((tool) =>
      list(tool['functionDeclarations']).map((declared) => ({
        name: nameIn(declared),
        adds: JSON.stringify(declared).includes('"wait_for_previous"') ? { wait_for_previous: true } : {},
      })),
    ),
  conversation: (body) =>
    list(body['contents']).flatMap(({ parts }) => list(parts).filter((part) => part['functionResponse'] !== undefined)),
  call: ({ name, adds }, args) => [candidate({ functionCall: { name, args: { ...args, ...adds } } })],
  end: (text) => [candidate({ text })],
}

const candidate = (part: Json): Json => ({
  candidates: [{ index: 0, content: { role: 'model', parts: [part] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
})

/** Programs put a prefix before the name of a tool, and Kimi Code makes one underscore of several. */
export function isNameOf(tool: string, displayed: string): boolean {
  const squeezed = (name: string) => name.replaceAll(/_+/g, '_')
  return squeezed(displayed).endsWith(squeezed(tool))
}

/** A name may be in two namespaces. */
const fullName = ({ name, namespace }: Wanted): string => (namespace === undefined ? name : `${namespace}__${name}`)

function protocolOf(path: string): Protocol | undefined {
  if (path.endsWith('/chat/completions')) return chat
  if (path.endsWith('/messages')) return anthropic
  if (path.endsWith('/responses')) return responses
  return path.includes('enerateContent') ? gemini : undefined
}

export async function openModelStage(wanted: Readonly<{ tool: string; args: Json }>): Promise<ModelStage> {
  let displayed: readonly string[] = []
  let answer: string | undefined

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const [path = ''] = (req.url ?? '').split('?')
    const protocol = req.method === 'POST' ? protocolOf(path) : undefined
    if (protocol === undefined) {
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[],"models":[]}')
      return
    }
    const body = JSON.parse(await textOf(req)) as Json
    const answers = protocol.conversation(body) as readonly Json[]
    const tools = protocol.tools(body).filter(({ name }) => name !== '')
    const found = tools.find(({ name }) => isNameOf(wanted.tool, name))
    if (answers.length > 0) answer = JSON.stringify(answers)
    const isCall = answers.length === 0 && found !== undefined
    if (isCall) displayed = tools.map(fullName)
    const events = isCall ? protocol.call(found, wanted.args) : protocol.end('All done.')
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of events) {
      if (typeof event['type'] === 'string') res.write(`event: ${event['type']}\n`)
      res.write(`data: ${JSON.stringify(event)}\n\n`)
    }
    res.end(protocol === chat ? 'data: [DONE]\n\n' : '')
  }

  const server = createServer((req, res) => {
    serve(req, res).catch(() => res.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    displayedTools: () => displayed,
    toolAnswer: () => answer,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

async function textOf(req: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of req) text += String(part)
  return text
}
