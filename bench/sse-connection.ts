import { connect, type Socket } from 'node:net'
import type { Answer, Connection } from './client.ts'
import { openHttpConnection } from './http-connection.ts'

/**
 * MCP over the older transport with HTTP and events: one stream brings all answers, and each message goes by a POST of its own
 * to the address that the stream names first. What is measured ends with the answer on the stream.
 */
export async function openSseConnection(
  target: Readonly<{ port: number; path: string; pid: number }>,
): Promise<Connection> {
  const waiting = new Map<number, (answer: Answer) => void>()
  const opened = Promise.withResolvers<string>()
  const stream = connect({ port: target.port, host: '127.0.0.1', noDelay: true })
  const lose = (error: Error): void => {
    opened.reject(error)
    for (const done of waiting.values()) done(error)
    waiting.clear()
  }
  readEvents(stream, (event, data) => {
    if (event === 'endpoint') return opened.resolve(data.toString('utf8'))
    const id = idOf(data)
    const done = waiting.get(id)
    waiting.delete(id)
    done?.(data)
  })
  stream.on('error', lose)
  stream.on('close', () => lose(new Error('the server closed the stream')))
  stream.write(`GET ${target.path} HTTP/1.1\r\nHost: 127.0.0.1:${target.port}\r\nAccept: text/event-stream\r\n\r\n`)
  const headers = { 'Content-Type': 'application/json' }
  const posts = openHttpConnection({ ...target, path: await opened.promise, headers, isBare: true })
  let nextId = 1
  const post = (json: string): void =>
    posts.send(json, (answer) => {
      if (answer instanceof Error) lose(answer)
    })
  return {
    pid: target.pid,
    send(body, done) {
      const id = nextId++
      waiting.set(id, done)
      post(`{"jsonrpc":"2.0","id":${id},${body}}`)
    },
    notify: (body) => post(`{"jsonrpc":"2.0",${body}}`),
    async close() {
      stream.removeAllListeners('close')
      stream.destroy()
      await posts.close()
    },
  }
}

/** Servers of the SDK put the id last; none of what is measured has another further in. */
const idOf = (data: Buffer): number => Number.parseInt(data.toString('latin1', data.lastIndexOf('"id":') + 5), 10)

/** The events of a chunked answer; `data` is one line, and valid only during the call. */
function readEvents(stream: Socket, onEvent: (event: string, data: Buffer) => void): void {
  let bytes: Buffer = Buffer.alloc(0)
  let text: Buffer = Buffer.alloc(0)
  let isInBody = false
  stream.on('data', (chunk: Buffer) => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
    if (!isInBody) {
      const headEnd = bytes.indexOf('\r\n\r\n')
      if (headEnd < 0) return
      isInBody = true
      bytes = bytes.subarray(headEnd + 4)
    }
    for (let lineEnd = bytes.indexOf('\r\n'); lineEnd >= 0; lineEnd = bytes.indexOf('\r\n')) {
      const end = lineEnd + 2 + Number.parseInt(bytes.toString('latin1', 0, lineEnd), 16)
      if (bytes.length < end + 2) break
      const part = bytes.subarray(lineEnd + 2, end)
      text = text.length === 0 ? part : Buffer.concat([text, part])
      bytes = bytes.subarray(end + 2)
    }
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const at = text.indexOf('data: ')
      const event = /^event: (\w+)/.exec(text.toString('latin1', 0, Math.max(0, at)))?.[1] ?? 'message'
      if (at >= 0 && at < end) onEvent(event, text.subarray(at + 6, end))
      text = text.subarray(end + 2)
    }
  })
}
