import type { Socket } from 'node:net'
import { AppError } from '../../contract/app-error.ts'
import { errorEnvelope } from '../../contract/error-envelope.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Attachment } from './attach.ts'
import { TAKEOVER_TIMEOUT_MS } from './bridge-session.ts'
import type { Hello } from './hello.ts'

type HttpRelayOptions = Readonly<{
  attachment: Pick<Attachment, 'openHttp' | 'ownerPid'>
  logger: Logger
  /** No caller through this port is the local owner. */
  requireKeys: boolean
  /** TLS ends at this port: the relayed connection is plain HTTP. */
  isSecure?: boolean
  /** The exposure of callers that do not choose. */
  tools?: Hello['tools']
  takeoverTimeoutMs?: number
}>

/**
 * Serves a TCP connection of this process's port by the process that owns the state: here, or byte for byte through the owner's
 * socket. The listening server has `allowHalfOpen: true`, like HTTP servers.
 */
export function createHttpRelay(options: HttpRelayOptions): (socket: Socket) => void {
  const { attachment, logger } = options
  const timeoutMs = options.takeoverTimeoutMs ?? TAKEOVER_TIMEOUT_MS
  return (socket) => {
    socket.pause()
    const onEarlyError = (): void => void socket.destroy()
    socket.on('error', onEarlyError)
    const hello = helloFor(socket, options)
    attachment.openHttp(hello, timeoutMs).then(
      (connection) => {
        socket.off('error', onEarlyError)
        if (connection.kind === 'relay') relay(socket, connection.socket)
        else if (!socket.destroyed) connection.owner.serveHttp(socket, hello)
      },
      (error: unknown) => {
        logger.warn('no owner of the state for a connection', { error: (error as Error).message })
        refuse(socket, error instanceof AppError ? error.message : 'No process owns the state. Call again in a moment.')
      },
    )
  }
}

const helloFor = (socket: Socket, { requireKeys, isSecure, tools }: HttpRelayOptions): Hello => ({
  transport: 'http',
  requireKeys,
  ...(isSecure === true ? { isSecure } : {}),
  ...(tools === undefined ? {} : { tools }),
  remote: {
    address: socket.remoteAddress ?? '',
    port: socket.remotePort ?? 0,
    localAddress: socket.localAddress ?? '',
    localPort: socket.localPort ?? 0,
  },
})

function relay(client: Socket, owner: Socket): void {
  let isRequestUnanswered = false
  client.on('data', () => {
    isRequestUnanswered = true
  })
  owner.on('data', () => {
    isRequestUnanswered = false
  })
  const ownerClosed = (): void => {
    if (client.destroyed) return
    if (isRequestUnanswered) {
      isRequestUnanswered = false
      refuse(
        client,
        'The process that owned the state ended while this request was in progress. The request may or may not have taken effect. Check, then call again.',
      )
    } else client.destroySoon()
  }
  client.on('error', () => client.destroy())
  client.on('close', () => owner.destroy())
  owner.on('end', ownerClosed)
  owner.on('close', ownerClosed)
  client.setNoDelay(true)
  client.pipe(owner)
  owner.pipe(client, { end: false })
  if (client.destroyed) owner.destroy()
}

/** One answer, then the end of the connection. The client's further data is read and dropped, so that it sees the answer. */
function refuse(socket: Socket, message: string): void {
  const body = JSON.stringify(errorEnvelope({ code: 'ERR_OWNER_LOST', message, details: {} }))
  socket.unpipe()
  socket.resume()
  socket.end(
    `HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n${body}`,
    () => setTimeout(() => socket.destroy(), 250).unref(),
  )
}
