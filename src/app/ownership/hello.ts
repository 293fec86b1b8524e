import type { Socket } from 'node:net'
import type { Exposure } from '../../tools/runtime/tool-host.ts'

/** Incremented when the two sides could no longer understand each other; not the program's version. */
export const PROTOCOL = 1
const HELLO_BYTES_MAX = 64 * 1024

type RemotePeer = Readonly<{ address: string; port: number; localAddress: string; localPort: number }>

/**
 * A process's greeting to the owner about its client. `watch` only waits for the owner's end. `remote` is the TCP peer of a
 * relayed HTTP connection.
 */
export type Hello = Readonly<{
  transport: 'stdio' | 'cli' | 'http' | 'watch'
  /** The name of the connection, the same if it continues with another owner. */
  session?: string
  /** The exposure of the connection; over HTTP, that of callers that do not choose. */
  tools?: Exposure
  /** The spelling of tool names, if the client does not decide it. */
  safeNames?: boolean
  distinctNames?: boolean
  remote?: RemotePeer
  /** The connection came through a port that requires keys. */
  requireKeys?: boolean
  /** The connection came through TLS, which ended at the port. */
  isSecure?: boolean
}>

/**
 * `mode` is the mode of the state; an owner of an earlier version does not send it. `problems` are for everybody who uses the
 * state: halted logs.
 */
type HelloAnswer = Readonly<{ pid: number; version: string; mode?: string; problems?: readonly string[] }>

const transports: readonly unknown[] = ['stdio', 'cli', 'http', 'watch'] satisfies Hello['transport'][]

/** On the wire the transport is called `door`. */
export const helloLine = ({ transport, ...rest }: Hello): string =>
  JSON.stringify({ castellan: PROTOCOL, door: transport, ...rest })
export const answerLine = (answer: HelloAnswer): string => JSON.stringify({ castellan: PROTOCOL, ...answer })

const parseRecord = (line: string): Record<string, unknown> | undefined => {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** The other side's protocol number and greeting; undefined for anything else. */
export function parseHello(line: string): { protocol: number; hello: Hello } | undefined {
  const record = parseRecord(line)
  if (record === undefined || typeof record['castellan'] !== 'number') return undefined
  if (record['castellan'] === PROTOCOL && !transports.includes(record['door'])) return undefined
  const { castellan, door: transport, ...rest } = record
  return { protocol: castellan as number, hello: { transport, ...rest } as unknown as Hello }
}

export function parseAnswer(line: string): { protocol: number; answer: HelloAnswer } | undefined {
  const record = parseRecord(line)
  if (record === undefined || typeof record['castellan'] !== 'number' || typeof record['pid'] !== 'number')
    return undefined
  const mode = typeof record['mode'] === 'string' ? { mode: record['mode'] } : {}
  const told = Array.isArray(record['problems']) ? record['problems'] : []
  const problems = told.filter((problem) => typeof problem === 'string')
  const answer = { pid: record['pid'], version: String(record['version']), problems, ...mode }
  return { protocol: record['castellan'], answer }
}

/**
 * Reads one line and nothing beyond it: the rest stays in the socket, which is left paused for its next user. Undefined if the
 * socket ends first or the line is too long.
 */
export function readFirstLine(socket: Socket): Promise<string | undefined> {
  return new Promise((resolve) => {
    let received = Buffer.alloc(0)
    const finish = (line: string | undefined): void => {
      socket.off('data', onData)
      for (const event of ['end', 'close', 'error']) socket.off(event, onEnd)
      resolve(line)
    }
    const onEnd = (): void => finish(undefined)
    const onData = (chunk: Buffer): void => {
      received = Buffer.concat([received, chunk])
      const end = received.indexOf(0x0a)
      if (end === -1) {
        if (received.length > HELLO_BYTES_MAX) finish(undefined)
        return
      }
      socket.pause()
      const rest = received.subarray(end + 1)
      if (rest.length > 0) socket.unshift(rest)
      finish(received.toString('utf8', 0, end))
    }
    socket.on('data', onData)
    for (const event of ['end', 'close', 'error']) socket.on(event, onEnd)
    socket.resume()
  })
}
