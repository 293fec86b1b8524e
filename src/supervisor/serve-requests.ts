import { createServer, type Server, type Socket } from 'node:net'
import { PassThrough, type Readable } from 'node:stream'
import { AppError } from '../contract/app-error.ts'
import type { Logger } from '../kernel/logger.ts'
import { isNoSpace } from './no-space.ts'
import {
  createChunkReader,
  encodeFrame,
  type FrameType,
  type OperationName,
  type Operations,
  type RequestLine,
  requestLineBytesMax,
  type WireError,
} from './protocol.ts'

/** A request under way. */
export type Exchange = Readonly<{
  /** The content that follows the request line. Emits an error if the client disconnects before its end. */
  body: Readable
  /** Aborted when the client disconnects before the answer. */
  signal: AbortSignal
  /** Returns a promise while the client reads more slowly than the supervisor writes. */
  send(type: FrameType, payload: Uint8Array): Promise<void> | undefined
}>
export type Handlers = {
  [Name in OperationName]: (
    params: Operations[Name]['params'],
    exchange: Exchange,
  ) => Promise<Operations[Name]['result']> | Operations[Name]['result']
}

export function serveRequests(handlers: Handlers, logger: Logger): Server {
  return createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => socket.destroy())
    void readRequest(socket).then(
      (request) => answer(socket, request, handlers, logger),
      () => socket.destroy(),
    )
  })
}

type Request = Readonly<{ line: RequestLine; body: Readable; signal: AbortSignal }>

/** Reads the request line. Returns it with the content that follows and a signal that is aborted on disconnect. */
function readRequest(socket: Socket): Promise<Request> {
  return new Promise((resolve, reject) => {
    let held: Buffer = Buffer.alloc(0)
    const body = new PassThrough()
    body.on('error', () => {}).on('drain', () => socket.resume())
    const disconnected = new AbortController()
    const readContent = createChunkReader(
      (bytes) => void (body.write(bytes) || socket.pause()),
      () => void body.end(),
    )
    const onLine = (chunk: Buffer): void => {
      const end = chunk.indexOf(0x0a)
      if (end < 0) {
        held = Buffer.concat([held, chunk])
        if (held.length > requestLineBytesMax) reject(new Error('The request line is too long'))
        return
      }
      socket.off('data', onLine).on('data', readContent)
      readContent(chunk.subarray(end + 1))
      try {
        const line = JSON.parse(Buffer.concat([held, chunk.subarray(0, end)]).toString()) as RequestLine
        resolve({ line, body, signal: disconnected.signal })
      } catch (error) {
        reject(error)
      }
    }
    const onRevoked = (): void => {
      disconnected.abort()
      if (!body.writableEnded) body.destroy(new AppError('ERR_CANCELLED', 'The client disconnected.', {}))
      reject(new Error('The client disconnected'))
    }
    socket.on('data', onLine).once('end', onRevoked).once('close', onRevoked)
  })
}

async function answer(
  socket: Socket,
  { line, body, signal }: Request,
  handlers: Handlers,
  logger: Logger,
): Promise<void> {
  const send = (type: FrameType, payload: Uint8Array): Promise<void> | undefined => {
    if (socket.destroyed || signal.aborted) return undefined
    if (socket.write(encodeFrame(type, payload))) return undefined
    return new Promise((resolve) => {
      const go = (): void => {
        socket.off('drain', go).off('close', go)
        resolve()
      }
      socket.on('drain', go).on('close', go)
    })
  }
  const handler = handlers[line.operation] as (params: unknown, exchange: Exchange) => unknown
  try {
    const result = await handler(line.takes, { body, signal, send })
    await send('result', Buffer.from(JSON.stringify(result)))
  } catch (error) {
    if (!(error instanceof AppError)) logger.error(`${line.operation} failed`, { error: String(error) })
    await send('error', Buffer.from(JSON.stringify(toWire(error))))
  }
  // Unread content must not keep the connection open.
  body.resume()
  socket.end()
}

function toWire(error: unknown): WireError {
  if (error instanceof AppError) return { code: error.code, message: error.message, details: error.details }
  const message = error instanceof Error ? error.message : String(error)
  if (isNoSpace(error)) return { code: 'ERR_DISK_FULL', message: FULL, details: { reason: message } }
  return { code: 'ERR_BACKEND_FAILED', message, details: {} }
}

const FULL = 'The disk of the workspaces is full. Destroy what is not needed, or ask the operator to free space.'
