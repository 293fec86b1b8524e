import { PassThrough } from 'node:stream'
import { localOwner } from '../../src/contract/principal.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { createMcpTransport, type McpTransport, type McpTransportDeps } from '../../src/mcp/create-mcp-transport.ts'
import type { LineCaller, LineSession } from '../../src/mcp/line-session.ts'
import { stdioLines } from '../../src/mcp/line-transport.ts'
import { createSampleHost, type SampleHost } from './sample-host.ts'

export type Message = Readonly<{
  id?: string | number | null
  method?: string
  params?: Record<string, unknown>
  result?: Record<string, unknown>
  error?: { code: number; message: string; data?: Record<string, unknown> }
}>

/** A client of the transport that writes and reads raw lines, so that tests see exactly what is on the wire. */
export type LinePeer = Readonly<{
  transport: McpTransport
  host: SampleHost
  session: LineSession
  received: (Message | Message[])[]
  /** How often the transport wrote to its output. */
  writes(): number
  write(text: string): void
  send(...messages: unknown[]): void
  request(method: string, params?: unknown, id?: string | number): Promise<Message>
  /** The first message, past or future, that the condition holds for. */
  next(condition: (message: Message) => boolean): Promise<Message>
  initialize(revision?: string, clientName?: string): Promise<Message>
  endInput(): void
}>

export const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'line-peer', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

export function createLinePeer(
  options: Partial<McpTransportDeps> & { caller?: Partial<LineCaller>; sampleHost?: SampleHost } = {},
): LinePeer {
  const { caller, sampleHost, ...deps } = options
  const host = sampleHost ?? createSampleHost()
  const transport = createMcpTransport({ host, version: '1.2.3', logger: silentLogger, ...deps })
  const input = new PassThrough()
  const output = new PassThrough()
  const received: (Message | Message[])[] = []
  const waiters = new Set<() => void>()
  let text = ''
  let writes = 0
  let lastId = 100
  output.on('data', (chunk: Buffer) => {
    writes++
    text += chunk.toString()
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) received.push(JSON.parse(line) as Message)
    for (const waiter of waiters) waiter()
  })
  const session = transport.serveLines(stdioLines(input, output), {
    principal: localOwner,
    exposure: 'default',
    ...caller,
  })

  const next: LinePeer['next'] = (condition) =>
    new Promise((resolve) => {
      const look = (): void => {
        const found = received.flat().find(condition)
        if (found === undefined) return
        waiters.delete(look)
        resolve(found)
      }
      waiters.add(look)
      look()
    })
  const write = (line: string): void => {
    input.write(line)
  }
  const send = (...messages: unknown[]): void =>
    write(messages.map((message) => `${JSON.stringify(message)}\n`).join(''))
  const request: LinePeer['request'] = (method, params, id = ++lastId) => {
    send({ jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) })
    return next((message) => message.id === id && message.method === undefined)
  }
  return {
    transport,
    host,
    session,
    received,
    writes: () => writes,
    write,
    send,
    request,
    next,
    async initialize(revision = '2025-11-25', clientName = 'line-peer') {
      const clientInfo = { name: clientName, version: '1' }
      const reply = await request('initialize', { protocolVersion: revision, capabilities: {}, clientInfo }, 0)
      send({ jsonrpc: '2.0', method: 'notifications/initialized' })
      return reply
    },
    endInput: () => input.end(),
  }
}
