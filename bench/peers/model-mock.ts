/**
 * A model that answers at once, in the format of OpenAI: a chat answer of 1 KB, or a stream of 200 KB in 1,000 events. It speaks
 * HTTP by hand, so that it takes as little of the machine as it can. Takes the port as argument.
 */
import { createServer, type Socket } from 'node:net'

const ANSWER_BYTES = 1_024
const STREAM_BYTES = 200 * 1_024
const EVENTS = 1_000
const EVENTS_PER_WRITE = 20

const common = { id: 'chatcmpl-bench', created: 1_700_000_000, model: 'bench-model' }
const usage = { prompt_tokens: 40, completion_tokens: 220, total_tokens: 260 }
/** A text that makes the JSON around it as long as asked. */
const filled = (bytes: number, json: (text: string) => string): string => json('x'.repeat(bytes - json('').length))

const answer = filled(ANSWER_BYTES, (content) =>
  JSON.stringify({
    ...common,
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage,
  }),
)
const whole = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`,
)
const event = filled(
  STREAM_BYTES / EVENTS,
  (content) =>
    `data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content } }] })}\n\n`,
)
const last = `data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices: [], usage })}\n\ndata: [DONE]\n\n`
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`
const streamHead = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n',
)
const first = Buffer.concat([streamHead, Buffer.from(chunk(event))])
const several = Buffer.from(chunk(event.repeat(EVENTS_PER_WRITE)))
const end = Buffer.from(`${chunk(last)}0\r\n\r\n`)

/** The first event at once, then one write in each turn of the loop, as a provider does not write all at a time. */
function stream(socket: Socket): void {
  socket.write(first)
  let left = EVENTS / EVENTS_PER_WRITE
  const next = (): void => {
    if (left-- === 0) {
      socket.write(end)
      return
    }
    if (socket.write(several)) setImmediate(next)
    else socket.once('drain', next)
  }
  setImmediate(next)
}

createServer({ noDelay: true }, (socket) => {
  let rest: Buffer = Buffer.alloc(0)
  socket.on('error', () => socket.destroy())
  socket.on('data', (bytes: Buffer) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    const headEnd = rest.indexOf('\r\n\r\n')
    if (headEnd === -1) return
    const length = /\r\ncontent-length: *(\d+)/i.exec(rest.toString('latin1', 0, headEnd + 2))?.[1]
    if (length === undefined && !rest.includes('0\r\n\r\n', headEnd + 4)) return
    const total = length === undefined ? rest.length : headEnd + 4 + Number(length)
    if (rest.length < total) return
    const isStream = rest.subarray(headEnd, total).includes('"stream":true')
    rest = rest.subarray(total)
    if (isStream) stream(socket)
    else socket.write(whole)
  })
}).listen(Number(process.argv[2]), '127.0.0.1')
