import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a request costs at the peer, in the numbers that providers give. `input` has what is cached in it. */
export type Bill = Readonly<{ input: number; output: number; cacheRead: number; cacheWrite: number; reasoning: number }>

/**
 * How the peer answers: to the end, broken off after some parts, never, or with a refusal. `linger`: a stream is complete, and stays
 * open. `parts` are those of a stream.
 */
export type Manner = Readonly<{
  bill?: Bill
  manner?: 'whole' | 'cut' | 'hang' | 'linger' | 'silent' | number
  text?: string
  parts?: readonly string[]
}>

export type BillingPeer = Readonly<{
  url: string
  /** Bodies of what was asked. */
  seen: readonly string[]
  /** Of a request that hangs: resolves when the other side has left. */
  left(): Promise<void>
  stop(): Promise<void>
}>

const PARTS = ['One', ' two', ' three']

/** A provider that speaks the protocols of OpenAI, Anthropic and Gemini and writes its bill into every answer. */
export async function startBillingPeer(next: (body: string, position: number) => Manner): Promise<BillingPeer> {
  const seen: string[] = []
  let gone = Promise.withResolvers<void>()
  const server: Server = createServer((req, res) => {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => parts.push(part))
    req.on('end', () => {
      const body = Buffer.concat(parts).toString()
      const manner = next(body, seen.push(body) - 1)
      res.on('close', () => {
        gone.resolve()
        gone = Promise.withResolvers()
      })
      answer(req, res, body, manner)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    left: () => gone.promise,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export const usualBill: Bill = { input: 1_200, output: 90, cacheRead: 1_000, cacheWrite: 0, reasoning: 40 }

function answer(req: IncomingMessage, res: ServerResponse, body: string, said: Manner): void {
  const { bill = usualBill, manner = 'whole', text = PARTS.join(''), parts = PARTS } = said
  if (manner === 'silent') return
  if (typeof manner === 'number') {
    const refusal = { error: { message: 'no', type: 'theirs' }, type: 'error' }
    res.writeHead(manner, { 'content-type': 'application/json' }).end(JSON.stringify(refusal))
    return
  }
  const path = req.url ?? ''
  const isStream = path.includes('streamGenerateContent') || (JSON.parse(body) as { stream?: boolean }).stream === true
  const protocol = path.includes('/messages') ? anthropic : path.includes(':') ? gemini : openai
  if (!isStream) {
    const whole = JSON.stringify(protocol.whole(bill, text))
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(whole)) })
    if (manner === 'whole') res.end(whole)
    else res.write(whole.slice(0, 20), () => manner === 'cut' && res.destroy())
    return
  }
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const events = protocol.events(bill, parts)
  if (manner === 'whole') {
    res.end(events.join(''))
    return
  }
  const passed = manner === 'linger' ? events : events.slice(0, parts.length + protocol.beginning)
  res.write(passed.join(''), () => manner === 'cut' && setImmediate(() => res.destroy()))
}

type SpokenProtocol = Readonly<{
  whole(bill: Bill, text: string): object
  events(bill: Bill, parts: readonly string[]): readonly string[]
  /** Events before the one that has the whole bill, more than there are parts. */
  beginning: number
}>

const event = (data: object, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`

const openaiUsage = ({ input, output, cacheRead, reasoning }: Bill) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cacheRead },
  completion_tokens_details: { reasoning_tokens: reasoning },
})
const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm-1' }
const openai: SpokenProtocol = {
  whole: (bill, content) => ({
    ...{ id: 'c', object: 'chat.completion', created: 1, model: 'm-1', usage: openaiUsage(bill) },
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  }),
  events: (bill, parts) => [
    ...parts.map((content) => event({ ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content } }] })),
    event({ ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
    event({ ...chunk, choices: [], usage: openaiUsage(bill) }),
    'data: [DONE]\n\n',
  ],
  beginning: 0,
}

const anthropicUsage = ({ input, output, cacheRead, cacheWrite }: Bill) => ({
  input_tokens: input - cacheRead - cacheWrite,
  cache_read_input_tokens: cacheRead,
  cache_creation_input_tokens: cacheWrite,
  output_tokens: output,
})
const message = { id: 'msg', type: 'message', role: 'assistant', model: 'm-1', stop_sequence: null }
const anthropic: SpokenProtocol = {
  whole: (bill, text) => ({
    ...message,
    ...{ content: [{ type: 'text', text }], stop_reason: 'end_turn', usage: anthropicUsage(bill) },
  }),
  events: (bill, parts) => [
    event(
      {
        type: 'message_start',
        message: { ...message, content: [], stop_reason: null, usage: anthropicUsage({ ...bill, output: 1 }) },
      },
      'message_start',
    ),
    event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, 'content_block_start'),
    ...parts.map((text) =>
      event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }, 'content_block_delta'),
    ),
    event({ type: 'content_block_stop', index: 0 }, 'content_block_stop'),
    event(
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: { output_tokens: bill.output },
      },
      'message_delta',
    ),
    event({ type: 'message_stop' }, 'message_stop'),
  ],
  beginning: 2,
}

const geminiPart = (text: string, bill: Bill | undefined, isLast: boolean) => ({
  candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, ...(isLast && { finishReason: 'STOP' }) }],
  modelVersion: 'm-1',
  ...(bill !== undefined && {
    usageMetadata: {
      promptTokenCount: bill.input,
      candidatesTokenCount: bill.output - bill.reasoning,
      thoughtsTokenCount: bill.reasoning,
      cachedContentTokenCount: bill.cacheRead,
      totalTokenCount: bill.input + bill.output,
    },
  }),
})
const gemini: SpokenProtocol = {
  whole: (bill, text) => geminiPart(text, bill, true),
  events: (bill, parts) =>
    parts.map((text, index) => {
      const isLast = index === parts.length - 1
      return event(geminiPart(text, isLast ? bill : undefined, isLast))
    }),
  beginning: -1,
}
