import type { Readable, Writable } from 'node:stream'
import { SERVER_NAME, serverInstructions, skillCapabilities, toolCapabilities } from './server-facts.ts'

/**
 * Answers a client's `initialize` before the rest of the program is loaded, so that an editor does not wait for it.
 * Only the plain handshake of the revisions with sessions is answered; the line itself stays in the input, and the session
 * that is made later handles it as usual. Its own answer is then left out: it would say the same.
 */
type RequestId = string | number

/** Oldest last: what is answered to a client that asks for a revision nobody knows is the first. */
export const sessionRevisions: readonly string[] = [
  '2025-11-25',
  '2025-06-18',
  '2025-03-26',
  '2024-11-05',
  '2024-10-07',
]

export async function answerEarly(options: {
  input: Readable
  output: Writable
  version: string
  /** A client that is silent for this long gets no early answer. */
  waitMs: number
}): Promise<RequestId | undefined> {
  const chunk = await firstChunk(options.input, options.waitMs)
  if (chunk === undefined) return undefined
  options.input.unshift(chunk)
  const end = chunk.indexOf(0x0a)
  const request = end === -1 ? undefined : plainInitialize(chunk.toString('utf8', 0, end))
  if (request === undefined) return undefined
  const { id, protocolVersion } = request
  const result = {
    protocolVersion: sessionRevisions.includes(protocolVersion) ? protocolVersion : sessionRevisions[0],
    capabilities: { ...toolCapabilities, ...skillCapabilities },
    serverInfo: { name: SERVER_NAME, version: options.version },
    instructions: serverInstructions,
  }
  options.output.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`)
  return id
}

/** The transport, less the one answer that was already given. */
export function withoutAnswer<T extends Readonly<{ send(line: string): unknown }>>(
  transport: T,
  id: RequestId | undefined,
): T {
  if (id === undefined) return transport
  const direct = (line: string): unknown => transport.send(line)
  let send = (line: string): unknown => {
    const message = JSON.parse(line) as { id?: unknown; method?: unknown }
    if (message.id !== id || message.method !== undefined) return direct(line)
    send = direct
    return true
  }
  return { ...transport, send: (line: string) => send(line) }
}

function firstChunk(input: Readable, waitMs: number): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const finish = (chunk: Buffer | undefined): void => {
      clearTimeout(timer)
      input.off('readable', look)
      input.off('end', none)
      resolve(chunk)
    }
    const look = (): void => {
      const chunk: unknown = input.read()
      if (Buffer.isBuffer(chunk)) finish(chunk)
    }
    const none = (): void => finish(undefined)
    const timer = setTimeout(none, waitMs)
    input.on('readable', look)
    input.on('end', none)
  })
}

function plainInitialize(line: string): { id: RequestId; protocolVersion: string } | undefined {
  let message: unknown
  try {
    message = JSON.parse(line)
  } catch {
    return undefined
  }
  if (!isRecord(message) || message['jsonrpc'] !== '2.0' || message['method'] !== 'initialize') return undefined
  const { id, params } = message
  const isId = typeof id === 'string' || (typeof id === 'number' && Number.isSafeInteger(id))
  if (!isId || !isRecord(params) || params['_meta'] !== undefined) return undefined
  const { protocolVersion, capabilities, clientInfo } = params
  if (typeof protocolVersion !== 'string' || !isRecord(capabilities) || !isRecord(clientInfo)) return undefined
  if (typeof clientInfo['name'] !== 'string' || typeof clientInfo['version'] !== 'string') return undefined
  return { id, protocolVersion }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
