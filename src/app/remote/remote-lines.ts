import { finished } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import type { Credential } from './credential.ts'
import { readEvents } from './event-reader.ts'
import { type HttpClient, lostAnswer, type Reply, readText } from './http-client.ts'
import { answeredBy, readMessage, type WireMessage } from './wire-message.ts'

/**
 * The lines of a client over Streamable HTTP, of both revisions.
 * 1. Every request is answered: by the server, or with an error that says why not.
 * 2. Lines leave in the order in which they came; answers come as they come.
 * 3. When the server has forgotten the session, as after a restart, it is opened again with what the client said first.
 */
export type RemoteLines = Readonly<{
  onLine(handler: (line: string) => void): void
  onClose(handler: () => void): void
  send(line: string): void
  /** Resolves when every request so far is answered. */
  idle(): Promise<void>
  /** How many lines are not dealt with yet, and whom to tell when one is. */
  pending(): number
  onSettled(handler: () => void): void
  /** Ends the session, and what is under way. */
  close(): Promise<void>
}>

type RemoteLinesOptions = Readonly<{
  http: HttpClient
  credential: Credential
  origin: string
  /** Where MCP is spoken, with what the client chose to see. */
  endpoint: string
  /** Whether to listen for what the server says by itself. */
  listens: boolean
}>

type Waiting = Readonly<{ abort: AbortController }>

type Talk = {
  readonly options: RemoteLinesOptions
  readonly waiting: Map<string | number, Waiting>
  readonly ended: AbortController
  /** What is being answered; `idle` waits for it. */
  readonly answers: Set<Promise<void>>
  /** The line before has left. */
  turn: Promise<void>
  pending: number
  settled: () => void
  handler: (line: string) => void
  session: string | undefined
  revision: string | undefined
  /** What the client said first, to say it again. */
  opening: WireMessage | undefined
  reopening: Promise<void> | undefined
  isListening: boolean
}

const ACCEPT = 'application/json, text/event-stream'
const SERVER_ERROR = -32000
const PARSE_ERROR = -32700

export function remoteLines(options: RemoteLinesOptions): RemoteLines {
  const talk: Talk = {
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
      talk.handler = handler
    },
    onClose(handler) {
      closeHandler = handler
    },
    send(line) {
      talk.pending++
      talk.turn = talk.turn.then(() => pass(talk, line))
    },
    async idle() {
      await talk.turn
      while (talk.answers.size > 0) await Promise.all(talk.answers)
    },
    pending: () => talk.pending,
    onSettled(handler) {
      talk.settled = handler
    },
    async close() {
      if (talk.ended.signal.aborted) return
      talk.ended.abort()
      for (const { abort } of talk.waiting.values()) abort.abort()
      await leave(talk)
      closeHandler?.()
    },
  }
}

/** Resolves when the next line may leave. */
async function pass(talk: Talk, line: string): Promise<void> {
  const message = readMessage(line)
  const cancelled = message?.cancels === undefined ? undefined : talk.waiting.get(message.cancels)
  if (message === undefined) {
    emitError(talk, null, PARSE_ERROR, new AppError('ERR_INVALID_INPUT', 'Parse error: the line is not valid JSON'))
  } else if (cancelled !== undefined && talk.session === undefined) {
    // In the stateless revision the end of its response is the cancellation.
    cancelled.abort.abort()
  } else if (!talk.ended.signal.aborted) {
    await start(talk, message)
    return
  }
  settle(talk)
}

function settle(talk: Talk): void {
  talk.pending--
  talk.settled()
}

async function start(talk: Talk, message: WireMessage): Promise<void> {
  const abort = new AbortController()
  for (const id of message.ids) talk.waiting.set(id, { abort })
  const sent = Promise.withResolvers<void>()
  const answered = exchange(talk, message, abort.signal, sent.resolve)
    .catch((error: unknown) => failed(talk, message, error, abort.signal))
    .finally(() => {
      for (const id of message.ids) talk.waiting.delete(id)
      talk.answers.delete(answered)
      settle(talk)
    })
  talk.answers.add(answered)
  // The session has to be known, and a notification taken, before what comes after.
  const mustBeTaken = message.method === 'initialize' || message.ids.length === 0
  await (mustBeTaken ? answered : Promise.race([sent.promise, answered]))
  if (message.method === 'notifications/initialized') listen(talk)
}

function failed(talk: Talk, message: WireMessage, error: unknown, signal: AbortSignal): void {
  if (signal.aborted || talk.ended.signal.aborted) return
  const told = error instanceof AppError ? error : lostAnswer(error)
  for (const id of message.ids) if (talk.waiting.has(id)) emitError(talk, id, SERVER_ERROR, told)
}

function emitError(talk: Talk, id: string | number | null, code: number, error: AppError): void {
  const data = { ...error.details, code: error.code }
  talk.handler(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message: error.message, data } }))
}

/** Sends a message and passes on what is answered; shows another token or opens the session again if that is what it takes. */
async function exchange(talk: Talk, message: WireMessage, signal: AbortSignal, onSent: () => void): Promise<void> {
  const { credential, origin } = talk.options
  let hasRenewed = false
  let hasReopened = false
  for (;;) {
    const token = await credential.token()
    const { session } = talk
    const reply = await post(talk, message, token, signal, onSent)
    if (reply.status === 401) {
      await discard(reply)
      if (hasRenewed || !(await credential.renew(token))) throw credential.refusal(origin)
      hasRenewed = true
    } else if (reply.status === 404 && canReopen(talk, message, session) && !hasReopened) {
      await discard(reply)
      await reopen(talk, session)
      hasReopened = true
    } else {
      await answer(talk, message, reply)
      return
    }
  }
}

const isOpening = ({ method, statelessHeaders }: WireMessage): boolean =>
  method === 'initialize' && statelessHeaders === undefined

const canReopen = (talk: Talk, message: WireMessage, session: string | undefined): boolean =>
  session !== undefined && message.statelessHeaders === undefined && talk.opening !== undefined && !isOpening(message)

function post(
  talk: Talk,
  message: WireMessage,
  token: string | undefined,
  signal: AbortSignal,
  onSent?: () => void,
): Promise<Reply> {
  const { http, endpoint } = talk.options
  const headers = {
    accept: ACCEPT,
    'content-type': 'application/json',
    ...authorization(token),
    ...(message.statelessHeaders ?? (isOpening(message) ? {} : sessionHeaders(talk))),
  }
  const sent = onSent === undefined ? {} : { onSent }
  return http(endpoint, { method: 'POST', headers, body: message.line, signal, ...sent })
}

const authorization = (token: string | undefined): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` }

const sessionHeaders = ({ session, revision }: Talk): Record<string, string> => ({
  ...(session === undefined ? {} : { 'mcp-session-id': session }),
  ...(revision === undefined ? {} : { 'mcp-protocol-version': revision }),
})

async function answer(talk: Talk, message: WireMessage, reply: Reply): Promise<void> {
  const { status, headers } = reply
  if (status < 200 || status > 299) throw await refusalOf(reply, talk.options.origin)
  if (status === 202 || status === 204) {
    await discard(reply)
    if (message.ids.length > 0) throw notMcp(talk.options.origin)
    return
  }
  const open = new Set(message.ids)
  const take = (line: string): void => {
    for (const id of answeredBy(line)) open.delete(id)
    if (isOpening(message)) opened(talk, message, reply, line)
    talk.handler(line)
  }
  if (headers['content-type']?.startsWith('text/event-stream')) {
    for await (const event of readEvents(reply.stream, remoteLimits.remoteAnswerBytesMax)) take(inOneLine(event))
  } else if (headers['content-type']?.startsWith('application/json')) {
    const text = await readText(reply, remoteLimits.remoteAnswerBytesMax)
    if (text !== '') take(inOneLine(text))
  } else {
    await discard(reply)
    throw notMcp(talk.options.origin)
  }
  if (open.size > 0) throw lostAnswer()
}

/** A server may answer JSON over several lines; here a line is a message. */
const inOneLine = (json: string): string => (/[\r\n]/.test(json) ? JSON.stringify(JSON.parse(json)) : json)

function opened(talk: Talk, message: WireMessage, reply: Reply, line: string): void {
  const { result } = JSON.parse(line) as { result?: { protocolVersion?: unknown } }
  if (result === undefined) return
  const session = reply.headers['mcp-session-id']
  talk.session = typeof session === 'string' ? session : undefined
  talk.revision = typeof result.protocolVersion === 'string' ? result.protocolVersion : undefined
  talk.opening = message
}

/** Once for all who find the session gone. */
async function reopen(talk: Talk, lost: string | undefined): Promise<void> {
  if (talk.session !== lost) return
  talk.reopening ??= openAgain(talk).finally(() => {
    talk.reopening = undefined
  })
  await talk.reopening
}

async function openAgain(talk: Talk): Promise<void> {
  const opening = talk.opening!
  const { credential, origin } = talk.options
  const reply = await post(talk, opening, await credential.token(), talk.ended.signal)
  if (reply.status !== 200) throw await refusalOf(reply, origin)
  const { stream, headers } = reply
  const isStream = headers['content-type']?.startsWith('text/event-stream')
  if (isStream) {
    for await (const event of readEvents(stream, remoteLimits.remoteAnswerBytesMax)) opened(talk, opening, reply, event)
  } else opened(talk, opening, reply, await readText(reply, remoteLimits.remoteAnswerBytesMax))
  const initialized = readMessage('{"jsonrpc":"2.0","method":"notifications/initialized"}')!
  await discard(await post(talk, initialized, await credential.token(), talk.ended.signal))
}

/** The stream of what the server says by itself; it is opened again for as long as the client stays. */
function listen(talk: Talk): void {
  if (!talk.options.listens || talk.isListening || talk.session === undefined) return
  talk.isListening = true
  void keepListening(talk)
}

async function keepListening(talk: Talk): Promise<void> {
  const { http, endpoint, credential } = talk.options
  const { signal } = talk.ended
  let pauseMs: number = remoteLimits.remoteListenPauseMs
  while (!signal.aborted) {
    try {
      const token = await credential.token()
      const headers = { accept: 'text/event-stream', ...authorization(token), ...sessionHeaders(talk) }
      const reply = await http(endpoint, { method: 'GET', headers, signal })
      if (reply.status === 405) return
      if (reply.status === 200) {
        pauseMs = remoteLimits.remoteListenPauseMs
        for await (const event of readEvents(reply.stream, remoteLimits.remoteAnswerBytesMax)) {
          talk.handler(inOneLine(event))
        }
      } else {
        await discard(reply)
        if (reply.status === 401) await credential.renew(token)
      }
    } catch {
      // The next request says what is wrong; until then there is nobody to tell.
    }
    await delay(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    pauseMs = Math.min(pauseMs * 2, remoteLimits.remoteListenPauseMsMax)
  }
}

async function leave(talk: Talk): Promise<void> {
  if (talk.session === undefined) return
  const { http, endpoint, credential } = talk.options
  const signal = AbortSignal.timeout(remoteLimits.remoteLeaveMs)
  try {
    const headers = { ...authorization(await credential.token()), ...sessionHeaders(talk) }
    await discard(await http(endpoint, { method: 'DELETE', headers, signal }))
  } catch {
    // The server ends sessions that nobody uses by itself.
  }
}

/** Reads on, so that the connection can be used again. */
const discard = ({ stream }: Reply): Promise<void> => finished(stream.resume()).catch(() => {})

/** What the server says about a request that it did not take, in its own envelope or in that of JSON-RPC. */
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
