import { once } from 'node:events'
import { closeSync, constants, openSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { basename, dirname } from 'node:path'
import { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import {
  encodeChunk,
  endChunk,
  type FrameType,
  type OperationName,
  type Operations,
  readFrames,
  type WireError,
} from '../../supervisor/protocol.ts'

type AskOptions = Readonly<{
  signal?: AbortSignal
  body?: string | Uint8Array | Readable | undefined
  onFrame?(type: FrameType, payload: Buffer): void
}>
export type Ask = <Name extends OperationName>(
  operation: Name,
  params: Operations[Name]['params'],
  options?: AskOptions,
) => Promise<Operations[Name]['result']>

/** Requests to the supervisor at `socketPath`. Each has a connection of its own; closing it cancels the request. */
export function createAsk(socketPath: string): Ask {
  return async (operation, params, options = {}) => {
    const socket = await openSocket(socketPath)
    const onAbort = (): void => void socket.destroy()
    options.signal?.addEventListener('abort', onAbort)
    if (options.signal?.aborted === true) onAbort()
    try {
      sendRequest(socket, operation, params, options.body)
      for await (const { type, payload } of readFrames(socket)) {
        if (type === 'result') return JSON.parse(payload.toString())
        if (type === 'error') throw fromWire(JSON.parse(payload.toString()) as WireError)
        options.onFrame?.(type, payload)
      }
    } catch (error) {
      if (options.signal?.aborted === true) throw cancelled()
      throw error instanceof AppError ? error : wentAway(operation, error)
    } finally {
      options.signal?.removeEventListener('abort', onAbort)
      socket.destroy()
    }
    if (options.signal?.aborted === true) throw cancelled()
    throw wentAway(operation)
  }
}

const cancelled = (): AppError => new AppError('ERR_CANCELLED', 'The call was cancelled.', {})

/** The request may or may not have been carried out. */
const wentAway = (operation: OperationName, cause?: unknown): AppError =>
  new AppError(
    'ERR_BACKEND_FAILED',
    `The supervisor of the workspaces ended during ${operation}. See workspace_info for the outcome.`,
    { operation, supervisor: 'went_away' },
    { cause },
  )
export const isWentAway = (error: unknown): boolean => isOfSupervisor(error, 'went_away')

/** No part of the request was carried out. */
const unreachable = (cause: unknown): AppError =>
  new AppError(
    'ERR_BACKEND_FAILED',
    'The supervisor of the workspaces cannot be reached. Call again; if that does not help, run castellan doctor.',
    { supervisor: 'unreachable', reason: String((cause as NodeJS.ErrnoException).code) },
    { cause },
  )
export const isUnreachable = (error: unknown): boolean => isOfSupervisor(error, 'unreachable')

const isOfSupervisor = (error: unknown, what: string): boolean =>
  error instanceof AppError && error.code === 'ERR_BACKEND_FAILED' && error.details['supervisor'] === what

/** A file's content as a stream, and its size. */
export async function askContent(
  socketPath: string,
  params: Operations['fileRead']['params'],
  signal?: AbortSignal,
): Promise<{ size: number; stream: Readable }> {
  const socket = await openSocket(socketPath)
  const onAbort = (): void => void socket.destroy()
  signal?.addEventListener('abort', onAbort)
  socket.once('close', () => signal?.removeEventListener('abort', onAbort))
  if (signal?.aborted === true) onAbort()
  const brokenOff = (cause?: unknown): AppError =>
    signal?.aborted === true ? cancelled() : wentAway('fileRead', cause)
  sendRequest(socket, 'fileRead', params, undefined)
  const frames = readFrames(socket)
  const first = await frames.next().catch((error: unknown) => {
    throw brokenOff(error)
  })
  if (first.done === true) throw brokenOff()
  if (first.value.type === 'error') {
    socket.destroy()
    throw fromWire(JSON.parse(first.value.payload.toString()) as WireError)
  }
  const { size } = JSON.parse(first.value.payload.toString()) as { size: number }
  async function* content(): AsyncGenerator<Buffer> {
    try {
      for await (const { type, payload } of frames) {
        if (type === 'data') yield payload
        else if (type === 'error') throw fromWire(JSON.parse(payload.toString()) as WireError)
        else return
      }
      throw brokenOff()
    } catch (error) {
      throw error instanceof AppError ? error : brokenOff(error)
    } finally {
      socket.destroy()
    }
  }
  // Also closes the connection if the stream is destroyed before it was read.
  const stream = Readable.from(content(), { objectMode: false }).once('close', () => socket.destroy())
  return { size, stream }
}

async function openSocket(path: string): Promise<Socket> {
  try {
    const socket = connectTo(path)
    socket.on('error', () => {})
    await once(socket, 'connect')
    return socket
  } catch (error) {
    throw unreachable(error)
  }
}

/** The limit of sockaddr_un. */
const SOCKET_PATH_BYTES_MAX = 107

/** A longer path is opened relative to its folder. The name is resolved before this returns. */
export function connectTo(path: string): Socket {
  if (Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX) return connect({ path, allowHalfOpen: true })
  const folder = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    return connect({ path: `/proc/self/fd/${folder}/${basename(path)}`, allowHalfOpen: true })
  } finally {
    closeSync(folder)
  }
}

function sendRequest(socket: Socket, operation: OperationName, params: unknown, body: AskOptions['body']): void {
  socket.write(`${JSON.stringify({ operation, takes: params })}\n`)
  if (body instanceof Readable) void sendContent(socket, body)
  else if (body !== undefined) {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    if (bytes.length > 0) socket.write(encodeChunk(bytes))
    socket.write(endChunk)
  }
}

/** A failing source destroys the connection, so that its truncated content is not taken for complete. */
async function sendContent(socket: Socket, body: Readable): Promise<void> {
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  try {
    for await (const bytes of body as AsyncIterable<Buffer>) {
      if (bytes.length > 0 && !socket.write(encodeChunk(bytes))) await Promise.race([once(socket, 'drain'), closed])
      if (socket.destroyed) return
    }
    socket.write(endChunk)
  } catch (error) {
    socket.destroy(error as Error)
  }
}

const fromWire = ({ code, message, details }: WireError): AppError => new AppError(code, message, details)
