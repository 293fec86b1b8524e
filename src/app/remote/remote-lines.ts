import { finished } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { errorResponse, jsonRpcCodes } from '../../mcp/json-rpc.ts'
import type { Credential } from './credential.ts'
import { readEvents } from './event-reader.ts'
import { type HttpClient, lostAnswer, type Reply, readText } from './http-client.ts'
import { answeredBy, readMessage, type WireMessage } from './wire-message.ts'

/**
 * The lines of a client over Streamable HTTP, of both revisions.
 * 1. Every request is answered: by the server, or with an error that says why not.
 * 2. Lines are sent in order; answers come in any order.
 * 3. If the server has forgotten the session, as after a restart, it is opened again with the client's first message.
 */
export type RemoteLines = Readonly<{
  onLine(handler: (line: string) => void): void
  onClose(handler: () => void): void
  send(line: string): void
  /** Resolves when every request so far is answered. */
  idle(): Promise<void>
  /** The number of unfinished lines, and a callback when one finishes. */
  pending(): number
  onSettled(handler: () => void): void
  /** Ends the session and its requests in progress. */
  close(): Promise<void>
}>

type RemoteLinesOptions = Readonly<{
  http: HttpClient
  credential: Credential
  origin: string
  /** The MCP endpoint, with the client's choice of tools. */
  endpoint: string
  /** `mcp` serves a program, and listens for the server's notifications. The other commands are a person's. */
  isFor: 'program' | 'person'
}>

type Waiting = Readonly<{ abort: AbortController }>

type Session = {
  readonly options: RemoteLinesOptions
  readonly waiting: Map<string | number, Waiting>
  readonly ended: AbortController
  /** Answers in progress; `idle` waits for them. */
  readonly answers: Set<Promise<void>>
  /** Resolves when the previous line has been sent. */
  turn: Promise<void>
  pending: number
  settled: () => void
  handler: (line: string) => void
  session: string | undefined
  revision: string | undefined
  /** The client's first message, to be repeated. */
  opening: WireMessage | undefined
  reopening: Promise<void> | undefined
  isListening: boolean
}

const ACCEPT = 'application/json, text/event-stream'

export function remoteLines(options: RemoteLinesOptions): RemoteLines {
  const connection: Session = {
    options,
    waiting: new Map(),
    ended: new AbortController(),
    answers: new Set(),
    turn: Promise.resolve(),
    pending: 0,
    settled() {},
    handler() {},
    session: undefined,
    revision: undefined,
    opening: undefined,
    reopening: undefined,
    isListening: false,
  }
  let closeHandler: (() => void) | undefined
  return {
    onLine(handler) {
      connection.handler = handler
    },
    onClose(handler) {
      closeHandler = handler
    },
    send(line) {
      connection.pending++
      connection.turn = connection.turn.then(() => pass(connection, line))
    },
    async idle() {
      await connection.turn
      while (connection.answers.size > 0) await Promise.all(connection.answers)
    },
    pending: () => connection.pending,
    onSettled(handler) {
      connection.settled = handler
    },
    async close() {
      if (connection.ended.signal.aborted) return
      connection.ended.abort()
      for (const { abort } of connection.waiting.values()) abort.abort()
      await leave(connection)
      closeHandler?.()
    },
  }
}

/** Resolves when the next line may be sent. */
async function pass(connection: Session, line: string): Promise<void> {
  const message = readMessage(line)
  const cancelled = message?.cancels === undefined ? undefined : connection.waiting.get(message.cancels)
  if (message === undefined) {
    emitError(
      connection,
      null,
      jsonRpcCodes.parseError,
      new AppError('ERR_INVALID_INPUT', 'Parse error: the line is not valid JSON'),
    )
  } else if (cancelled !== undefined && connection.session === undefined) {
    // In the stateless revision the end of its response is the cancellation.
    cancelled.abort.abort()
  } else if (!connection.ended.signal.aborted) {
    await start(connection, message)
    return
  }
  settle(connection)
}

function settle(connection: Session): void {
  connection.pending--
  connection.settled()
}

async function start(connection: Session, message: WireMessage): Promise<void> {
  const abort = new AbortController()
  for (const id of message.ids) connection.waiting.set(id, { abort })
  const sent = Promise.withResolvers<void>()
  const answered = exchange(connection, message, abort.signal, sent.resolve)
    .catch((error: unknown) => failed(connection, message, error, abort.signal))
    .finally(() => {
      for (const id of message.ids) connection.waiting.delete(id)
      connection.answers.delete(answered)
      settle(connection)
    })
  connection.answers.add(answered)
  // The session must be known, and a notification accepted, before later lines.
  const mustBeTaken = message.method === 'initialize' || message.ids.length === 0
  await (mustBeTaken ? answered : Promise.race([sent.promise, answered]))
  if (message.method === 'notifications/initialized') listen(connection)
}

function failed(connection: Session, message: WireMessage, error: unknown, signal: AbortSignal): void {
  if (signal.aborted || connection.ended.signal.aborted) return
  const told = error instanceof AppError ? error : lostAnswer(error)
  for (const id of message.ids)
    if (connection.waiting.has(id)) emitError(connection, id, jsonRpcCodes.serverError, told)
}

function emitError(connection: Session, id: string | number | null, code: number, error: AppError): void {
  const data = { ...error.details, code: error.code }
  connection.handler(errorResponse(id, code, error.message, data))
}

/** Sends a message and forwards the answer; sends another token or reopens the session if necessary. */
async function exchange(
  connection: Session,
  message: WireMessage,
  signal: AbortSignal,
  onSent: () => void,
): Promise<void> {
  const { credential, origin } = connection.options
  let hasRenewed = false
  let hasReopened = false
  for (;;) {
    const token = await credential.token()
    const { session } = connection
    const reply = await post(connection, message, token, signal, onSent)
    if (reply.status === 401) {
      await discard(reply)
      if (hasRenewed || !(await credential.renew(token))) throw credential.refusal(origin)
      hasRenewed = true
    } else if (reply.status === 404 && canReopen(connection, message, session) && !hasReopened) {
      await discard(reply)
      await reopen(connection, session)
      hasReopened = true
    } else {
      await answer(connection, message, reply)
      return
    }
  }
}

const isOpening = ({ method, statelessHeaders }: WireMessage): boolean =>
  method === 'initialize' && statelessHeaders === undefined

const canReopen = (connection: Session, message: WireMessage, session: string | undefined): boolean =>
  session !== undefined &&
  message.statelessHeaders === undefined &&
  connection.opening !== undefined &&
  !isOpening(message)

function post(
  connection: Session,
  message: WireMessage,
  token: string | undefined,
  signal: AbortSignal,
  onSent?: () => void,
): Promise<Reply> {
  const { http, endpoint } = connection.options
  const headers = {
    accept: ACCEPT,
    'content-type': 'application/json',
    ...authorization(token, connection),
    ...(message.statelessHeaders ?? (isOpening(message) ? {} : sessionHeaders(connection))),
  }
  const sent = onSent === undefined ? {} : { onSent }
  return http(endpoint, { method: 'POST', headers, body: message.line, signal, ...sent })
}

const authorization = (token: string | undefined, { options }: Session): Record<string, string> => ({
  ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  ...(options.isFor === 'person' && { 'castellan-terminal': '1' }),
})

const sessionHeaders = ({ session, revision }: Session): Record<string, string> => ({
  ...(session === undefined ? {} : { 'mcp-session-id': session }),
  ...(revision === undefined ? {} : { 'mcp-protocol-version': revision }),
})

async function answer(connection: Session, message: WireMessage, reply: Reply): Promise<void> {
  const { status, headers } = reply
  if (status < 200 || status > 299) throw await refusalOf(reply, connection.options.origin)
  if (status === 202 || status === 204) {
    await discard(reply)
    if (message.ids.length > 0) throw notMcp(connection.options.origin)
    return
  }
  const open = new Set(message.ids)
  const take = (line: string): void => {
    for (const id of answeredBy(line)) open.delete(id)
    if (isOpening(message)) opened(connection, message, reply, line)
    connection.handler(line)
  }
  if (headers['content-type']?.startsWith('text/event-stream')) {
    for await (const event of readEvents(reply.stream, remoteLimits.remoteAnswerBytesMax)) take(inOneLine(event))
  } else if (headers['content-type']?.startsWith('application/json')) {
    const text = await readText(reply, remoteLimits.remoteAnswerBytesMax)
    if (text !== '') take(inOneLine(text))
  } else {
    await discard(reply)
    throw notMcp(connection.options.origin)
  }
  if (open.size > 0) throw lostAnswer()
}

/** A server may answer JSON over several lines; here a line is a message. */
const inOneLine = (json: string): string => (/[\r\n]/.test(json) ? JSON.stringify(JSON.parse(json)) : json)

function opened(connection: Session, message: WireMessage, reply: Reply, line: string): void {
  const { result } = JSON.parse(line) as { result?: { protocolVersion?: unknown } }
  if (result === undefined) return
  const session = reply.headers['mcp-session-id']
  connection.session = typeof session === 'string' ? session : undefined
  connection.revision = typeof result.protocolVersion === 'string' ? result.protocolVersion : undefined
  connection.opening = message
}

/** Once for all that find the session lost. */
async function reopen(connection: Session, lost: string | undefined): Promise<void> {
  if (connection.session !== lost) return
  connection.reopening ??= openAgain(connection).finally(() => {
    connection.reopening = undefined
  })
  await connection.reopening
}

async function openAgain(connection: Session): Promise<void> {
  const opening = connection.opening!
  const { credential, origin } = connection.options
  const reply = await post(connection, opening, await credential.token(), connection.ended.signal)
  if (reply.status !== 200) throw await refusalOf(reply, origin)
  const { stream, headers } = reply
  const isStream = headers['content-type']?.startsWith('text/event-stream')
  if (isStream) {
    for await (const event of readEvents(stream, remoteLimits.remoteAnswerBytesMax))
      opened(connection, opening, reply, event)
  } else opened(connection, opening, reply, await readText(reply, remoteLimits.remoteAnswerBytesMax))
  const initialized = readMessage('{"jsonrpc":"2.0","method":"notifications/initialized"}')!
  await discard(await post(connection, initialized, await credential.token(), connection.ended.signal))
}

/** The stream of the server's notifications; it is reopened while the client stays. */
function listen(connection: Session): void {
  if (connection.options.isFor === 'person' || connection.isListening || connection.session === undefined) return
  connection.isListening = true
  void keepListening(connection)
}

async function keepListening(connection: Session): Promise<void> {
  const { http, endpoint, credential } = connection.options
  const { signal } = connection.ended
  let pauseMs: number = remoteLimits.remoteListenPauseMs
  while (!signal.aborted) {
    try {
      const token = await credential.token()
      const headers = {
        accept: 'text/event-stream',
        ...authorization(token, connection),
        ...sessionHeaders(connection),
      }
      const reply = await http(endpoint, { method: 'GET', headers, signal })
      if (reply.status === 405) return
      if (reply.status === 200) {
        pauseMs = remoteLimits.remoteListenPauseMs
        for await (const event of readEvents(reply.stream, remoteLimits.remoteAnswerBytesMax)) {
          connection.handler(inOneLine(event))
        }
      } else {
        await discard(reply)
        if (reply.status === 401) await credential.renew(token)
      }
    } catch {
      // The next request reports the problem; until then no request can carry it.
    }
    await delay(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    pauseMs = Math.min(pauseMs * 2, remoteLimits.remoteListenPauseMsMax)
  }
}

async function leave(connection: Session): Promise<void> {
  if (connection.session === undefined) return
  const { http, endpoint, credential } = connection.options
  const signal = AbortSignal.timeout(remoteLimits.remoteLeaveMs)
  try {
    const headers = { ...authorization(await credential.token(), connection), ...sessionHeaders(connection) }
    await discard(await http(endpoint, { method: 'DELETE', headers, signal }))
  } catch {
    // The server ends unused sessions by itself.
  }
}

/** Reads the rest, so that the connection can be reused. */
const discard = ({ stream }: Reply): Promise<void> => finished(stream.resume()).catch(() => {})

/** The server's message about a refused request, in its own envelope or in JSON-RPC's. */
async function refusalOf(reply: Reply, origin: string): Promise<AppError> {
  const text = await readText(reply, remoteLimits.remoteMetadataBytesMax)
  const { error } = parsed(text) as { error?: { code?: unknown; message?: unknown; details?: object; data?: object } }
  if (typeof error?.message !== 'string') return notMcp(origin, reply.status)
  const details = { ...error.data, ...error.details } as Record<string, unknown>
  const code = [error.code, details['code']].find(
    (value) => typeof value === 'string' && Object.hasOwn(errorCodes, value),
  )
  return new AppError((code ?? codeOf(reply.status)) as ErrorCode, error.message, details)
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

const codeOf = (status: number): ErrorCode =>
  status === 503 ? 'ERR_SHUTTING_DOWN' : status === 429 ? 'ERR_RATE_LIMITED' : 'ERR_INVALID_INPUT'

const notMcp = (origin: string, status?: number): AppError =>
  new AppError(
    'ERR_WEB_FAILED',
    `The server at ${origin} is not a Castellan server${status === undefined ? '' : ` (HTTP ${status})`}. Check the address.`,
    { origin, status },
  )
