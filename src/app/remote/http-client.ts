import type { IncomingHttpHeaders, IncomingMessage, RequestOptions } from 'node:http'
import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { request as plainRequest } from '../../kernel/node-http.ts'

type HttpRequest = Readonly<{
  method: 'GET' | 'POST' | 'DELETE'
  headers: Readonly<Record<string, string>>
  body?: string
  signal?: AbortSignal
  /** Called once everything has been written. */
  onSent?: () => void
}>

export type Reply = Readonly<{ status: number; headers: IncomingHttpHeaders; stream: IncomingMessage }>

/**
 * One HTTP request to the server. Rejects with ERR_WEB_FAILED if the server was not reached, so that nothing was done, and with
 * ERR_OWNER_LOST if the outcome is unknown.
 */
export type HttpClient = (url: string, request: HttpRequest) => Promise<Reply>

type HttpTrust = Readonly<{
  /** PEM certificates of authorities; replaces those of the system. */
  ca?: string
}>

export function createHttpClient({ ca }: HttpTrust): HttpClient {
  return (url, { method, headers, body, signal, onSent }) =>
    new Promise((resolve, reject) => {
      const { protocol, origin } = new URL(url)
      const options: RequestOptions & { ca?: string } = { method, headers: withLength(headers, body) }
      if (signal !== undefined) options.signal = signal
      const isSecure = protocol === 'https:'
      if (isSecure && ca !== undefined) options.ca = ca
      const send = isSecure ? process.getBuiltinModule('node:https').request : plainRequest
      const clientRequest = send(url, options, (stream) => {
        // A reader gets the failure when it reads; an abort may come without a reader.
        stream.on('error', () => {})
        resolve({ status: stream.statusCode ?? 0, headers: stream.headers, stream })
      })
      let isConnected = false
      const timer = setTimeout(() => clientRequest.destroy(timedOut()), remoteLimits.remoteConnectMs)
      clientRequest.once('socket', (socket) => {
        const connected = (): void => {
          isConnected = true
          clearTimeout(timer)
          socket.setKeepAlive(true, KEEP_ALIVE_MS)
        }
        if (clientRequest.reusedSocket) return connected()
        // Between the end of an answer and the return of the socket to the pool, nothing of Node listens; an abort may come then.
        socket.on('error', () => {})
        socket.once(isSecure ? 'secureConnect' : 'connect', connected)
      })
      clientRequest.once('finish', () => onSent?.())
      clientRequest.once('close', () => clearTimeout(timer))
      clientRequest.on('error', (error) => {
        const isPlain = isConnected && !isSecure && signal?.aborted !== true
        void (isPlain ? speaksTls(url) : Promise.resolve(false)).then((isTls) =>
          reject(isTls ? plainAtTls(origin, error) : signal?.aborted ? error : toAppError(error, origin, isConnected)),
        )
      })
      clientRequest.end(body)
    })
}

/** A peer that vanished silently is noticed after a while. */
const KEEP_ALIVE_MS = 30_000

const withLength = (headers: Readonly<Record<string, string>>, body: string | undefined): Record<string, string> =>
  body === undefined ? { ...headers } : { ...headers, 'content-length': String(Buffer.byteLength(body)) }

const timedOut = (): Error => Object.assign(new Error('the connection took too long'), { code: 'ETIMEDOUT' })

function toAppError(cause: Error, origin: string, isConnected: boolean): AppError {
  const { code } = cause as NodeJS.ErrnoException
  if (isConnected) {
    const message = `The connection to ${origin} was lost while the request was in progress. The request may or may not have taken effect. Check, then call again.`
    return new AppError('ERR_OWNER_LOST', message, { origin }, { cause })
  }
  const [problem, next] = reasons[code ?? ''] ?? [code?.includes('CERT') ? CERTIFICATE : cause.message, CHECK]
  return new AppError('ERR_WEB_FAILED', `${origin} cannot be reached: ${problem}. ${next}`, { origin, code }, { cause })
}

/** A port that speaks TLS reads no plain request, so nothing was done. */
const plainAtTls = (origin: string, cause: Error): AppError =>
  new AppError(
    'ERR_WEB_FAILED',
    `${origin} speaks TLS. Nothing was sent that it could read. Write ${origin.replace('http:', 'https:')} instead.`,
    { origin },
    { cause },
  )

/** Such a port closes a plain connection without a word; only a handshake shows what it speaks. Nothing else is sent. */
async function speaksTls(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const options = { host, port: Number(port || 80), rejectUnauthorized: false, timeout: remoteLimits.remoteTlsProbeMs }
  const socket = process.getBuiltinModule('node:tls').connect(options, () => resolve(true))
  socket.on('error', () => resolve(false))
  socket.on('close', () => resolve(false))
  socket.on('timeout', () => resolve(false))
  return await promise.finally(() => socket.destroy())
}

const CHECK = 'Check the address, and that a server runs there.'
const CERTIFICATE = 'its certificate is not valid'
const AUTHORITY = 'If your own authority issued it, pass the certificate of that authority with --ca FILE.'
const untrusted = ['its certificate was issued by an authority that this machine does not trust', AUTHORITY] as const

const reasons: Readonly<Record<string, readonly [problem: string, next: string]>> = {
  ECONNREFUSED: ['nothing listens there', CHECK],
  ENOTFOUND: ['no host has that name', CHECK],
  EAI_AGAIN: ['the name cannot be resolved at the moment', 'Check the network, then call again.'],
  ETIMEDOUT: ['the connection took too long', CHECK],
  ECONNRESET: ['the connection was closed at once', 'Check whether it speaks https or http.'],
  EPROTO: ['it does not speak TLS there', 'Check whether it speaks https or http.'],
  CERT_HAS_EXPIRED: ['its certificate has expired', 'Ask its operator to renew it.'],
  ERR_TLS_CERT_ALTNAME_INVALID: ['its certificate is for another name', CHECK],
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
}

/** The whole body as text. Rejects if it is longer than `bytesMax`, and with ERR_OWNER_LOST if it ends early. */
export async function readText({ stream }: Pick<Reply, 'stream'>, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > bytesMax) throw new AppError('ERR_TOO_LARGE', `The answer of the server exceeds ${bytesMax} bytes.`)
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof AppError ? error : lostAnswer(error)
  }
  return Buffer.concat(chunks).toString('utf8')
}

export const lostAnswer = (cause?: unknown): AppError =>
  new AppError(
    'ERR_OWNER_LOST',
    'The server closed the connection before it answered. The call may or may not have taken effect. Check, then call again.',
    {},
    { cause },
  )
