import { connect, type Socket } from 'node:net'
import type { Answer, Connection } from './client.ts'

/**
 * MCP over HTTP/1.1 on kept-alive sockets, one call in flight on each, as many sockets as calls under way. It speaks HTTP
 * by hand because Node's own client costs more per request than the servers that are measured.
 */
export type HttpTarget = Readonly<{
  port: number
  path: string
  headers: Readonly<Record<string, string>>
  pid: number
  /** Bodies go out as they are, without the envelope of JSON-RPC. */
  isBare?: boolean
  /** Told when the first part of a body is there that comes in several. */
  onFirstChunk?(): void
}>

type Response = Readonly<{ body: Buffer; head: string; end: number }>

const unchunk = (bytes: Buffer, from: number): { body: Buffer; end: number } | null => {
  const parts: Buffer[] = []
  for (let at = from; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    const next = lineEnd + 2 + size + 2
    if (bytes.length < next) return null
    if (size === 0) return { body: Buffer.concat(parts), end: next }
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = next
  }
}

const readResponse = (bytes: Buffer): Response | null => {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return null
  const head = bytes.toString('latin1', 0, headEnd + 2)
  const bodyStart = headEnd + 4
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)
  if (length !== null) {
    const end = bodyStart + Number(length[1])
    return bytes.length < end ? null : { head, body: bytes.subarray(bodyStart, end), end }
  }
  if (!/\r\ntransfer-encoding: *chunked/i.test(head)) return { head, body: Buffer.alloc(0), end: bodyStart }
  const chunked = unchunk(bytes, bodyStart)
  return chunked === null ? null : { head, ...chunked }
}

export const openHttpConnection = (target: HttpTarget): Connection => {
  const idle: Socket[] = []
  const all = new Set<Socket>()
  const busy = new Map<Socket, (answer: Answer) => void>()
  const headers: Record<string, string> = { ...target.headers }
  let nextId = 1

  const settle = (socket: Socket, answer: Answer): void => {
    const done = busy.get(socket)
    busy.delete(socket)
    done?.(answer)
  }
  const open = (): Socket => {
    const socket = connect({ port: target.port, host: '127.0.0.1', noDelay: true })
    let rest: Buffer = Buffer.alloc(0)
    let isWaiting = target.onFirstChunk !== undefined
    socket.on('data', (chunk: Buffer) => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      if (isWaiting && rest.includes('\ndata:')) {
        isWaiting = false
        target.onFirstChunk?.()
      }
      const response = readResponse(rest)
      if (response === null) return
      rest = rest.subarray(response.end)
      isWaiting = target.onFirstChunk !== undefined
      const session = /\r\nmcp-session-id: *([^\r\n]+)/i.exec(response.head)?.[1]
      if (session !== undefined) headers['Mcp-Session-Id'] = session
      idle.push(socket)
      const accepted = response.head.startsWith('HTTP/1.1 2')
      settle(socket, accepted ? response.body : new Error(`${response.head.split('\r\n')[0]}: ${response.body}`))
    })
    const lose = (error: Error): void => {
      all.delete(socket)
      const at = idle.indexOf(socket)
      if (at >= 0) idle.splice(at, 1)
      settle(socket, error)
    }
    socket.on('error', lose)
    // A server that ends an idle connection may do so just before the next call: from then on it takes no request.
    socket.on('end', () => lose(new Error('the server closed the connection')))
    socket.on('close', () => lose(new Error('the server closed the connection')))
    all.add(socket)
    return socket
  }
  const post = (json: string, done: (answer: Answer) => void): void => {
    const socket = idle.pop() ?? open()
    busy.set(socket, done)
    let head = `POST ${target.path} HTTP/1.1\r\nHost: 127.0.0.1:${target.port}\r\n`
    for (const name in headers) head += `${name}: ${headers[name]}\r\n`
    socket.write(`${head}Content-Length: ${Buffer.byteLength(json)}\r\n\r\n${json}`)
  }

  return {
    pid: target.pid,
    send: (body, done) => post(target.isBare ? body : `{"jsonrpc":"2.0","id":${nextId++},${body}}`, done),
    notify: (body) => post(`{"jsonrpc":"2.0",${body}}`, () => {}),
    async close() {
      for (const socket of all) socket.destroy()
    },
  }
}
