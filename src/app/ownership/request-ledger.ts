import type { ErrorDetails } from '../../contract/app-error.ts'
import { errorEnvelope } from '../../contract/error-envelope.ts'
import { lostUnderWay } from '../../contract/owner-lost.ts'

type RequestId = string | number
type Message = Readonly<Record<string, unknown>>

/**
 * What a bridge must remember of a conversation to go on with another owner: the handshake, the settings, the requests
 * without an answer. It only keeps books; the bridge sends.
 */
export type RequestLedger = Readonly<{
  /** Takes note of a line of the client. Gives the line for the owner, or undefined when it concerns only a lost owner. */
  fromClient(line: string): string | undefined
  /** Takes note of a line of the owner. Gives the line for the client, or undefined when the client must not see it. */
  fromOwner(line: string): string | undefined
  /** The owner is about to end in order: it will end open subscriptions, and those go on with the next one. */
  ownerClosing(): void
  /** The owner is gone. Gives what the client must be told now; what can be repeated is kept for `replay`. */
  ownerLost(ownerPid: number): readonly string[]
  /** The handshake for a new owner, to be answered before anything else is sent; undefined if there is none to repeat. */
  replayHandshake(): string | undefined
  /** Settings and repeatable requests for a new owner. */
  replayRest(): readonly string[]
  /** Nobody took over in time. Gives the answers for everything still open. */
  giveUp(message: string): readonly string[]
  /** The answers for a line of the client while there is no owner. */
  refuse(line: string, message: string): readonly string[]
  /** Requests of the client without an answer. */
  openRequests(): number
  /** Lines still need `fromClient` and `fromOwner` even though the owner cannot be lost any more. */
  mustKeepWatching(): boolean
  /** Whether the owner has answered the replayed handshake. */
  isHandshakeAnswered(): boolean
}>

type LedgerOptions = Readonly<{
  /** Whether a tool call can be repeated without doing anything twice. */
  isReadOnlyTool: (name: string, args: unknown) => boolean
}>

type OpenRequest = Readonly<{
  id: RequestId
  method: string
  tool: string | undefined
  isModern: boolean
  /** The request to send again; undefined when repeating it could do something twice. */
  repeat: Message | undefined
}>

const PROTOCOL_VERSION_META_KEY = 'io.modelcontextprotocol/protocolVersion'
const SUBSCRIPTION_ID_META_KEY = 'io.modelcontextprotocol/subscriptionId'
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'
const LISTEN = 'subscriptions/listen'
const INTERNAL_ERROR = -32603

/** A response as our own sessions write it; the id is enough, so a long answer need not be parsed. */
const plainResponse = /^\{"jsonrpc":"2\.0","id":("(?:[^"\\]|\\.)*"|-?\d{1,15}),"(result|error)":/

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isRequestId = (value: unknown): value is RequestId => typeof value === 'string' || typeof value === 'number'
const recordIn = (from: Message | undefined, key: string): Record<string, unknown> | undefined => {
  const value = from?.[key]
  return isRecord(value) ? value : undefined
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

const messagesOf = (parsed: unknown): Message[] => (Array.isArray(parsed) ? parsed : [parsed]).filter(isRecord)

type Books = {
  readonly isReadOnlyTool: LedgerOptions['isReadOnlyTool']
  readonly open: Map<RequestId, OpenRequest>
  readonly settings: Map<string, Message>
  /** Requests of the owner that the client has not answered: the id that the client sees → the owner's id. */
  readonly asked: Map<RequestId, RequestId>
  /** Ids, as the client sees them, of requests whose owner is gone. */
  readonly orphaned: Set<RequestId>
  /** Ids of replayed requests; their answers are not for the client. */
  readonly swallowed: Set<RequestId>
  readonly acknowledged: Set<RequestId>
  /** Subscriptions whose acknowledgement the client has had from an earlier owner. */
  readonly acknowledgedBefore: Set<RequestId>
  handshake: Message | undefined
  handshakeReplayId: string | undefined
  initialized: Message | undefined
  isClosing: boolean
  losses: number
  replays: number
}

export function createRequestLedger({ isReadOnlyTool }: LedgerOptions): RequestLedger {
  const books: Books = {
    isReadOnlyTool,
    open: new Map(),
    settings: new Map(),
    asked: new Map(),
    orphaned: new Set(),
    swallowed: new Set(),
    acknowledged: new Set(),
    acknowledgedBefore: new Set(),
    handshake: undefined,
    handshakeReplayId: undefined,
    initialized: undefined,
    isClosing: false,
    losses: 0,
    replays: 0,
  }
  const { open, swallowed, acknowledgedBefore, orphaned, asked } = books
  return {
    fromClient: (line) => fromClient(books, line),
    fromOwner: (line) => fromOwner(books, line),
    ownerClosing() {
      books.isClosing = true
    },
    ownerLost: (ownerPid) => ownerLost(books, ownerPid),
    replayHandshake() {
      if (books.handshake === undefined) return undefined
      const line = replayed(books, books.handshake)
      books.handshakeReplayId = replayId(books.replays)
      return line
    },
    replayRest: () => replayRest(books),
    giveUp(message) {
      const answers = [...open.values()].map((request) => failure(request, message, {}))
      open.clear()
      return answers
    },
    refuse: (line, text) => refuse(books, line, text),
    openRequests: () => open.size,
    mustKeepWatching: () => swallowed.size > 0 || acknowledgedBefore.size > 0 || orphaned.size > 0 || asked.size > 0,
    isHandshakeAnswered: () => books.handshakeReplayId === undefined || !swallowed.has(books.handshakeReplayId),
  }
}

const replayId = (count: number): string => `castellan:replay:${count}`

function replayed(books: Books, message: Message): string {
  const id = replayId(++books.replays)
  books.swallowed.add(id)
  return JSON.stringify({ ...message, id })
}

function openRequest(books: Books, message: Message, id: RequestId, method: string): OpenRequest {
  const params = recordIn(message, 'params')
  const isCall = method === 'tools/call'
  const tool = isCall && typeof params?.['name'] === 'string' ? params['name'] : undefined
  const isRepeatable = !isCall || (tool !== undefined && books.isReadOnlyTool(tool, params?.['arguments'] ?? {}))
  const isModern = recordIn(params, '_meta')?.[PROTOCOL_VERSION_META_KEY] !== undefined
  return { id, method, tool, isModern, repeat: isRepeatable ? message : undefined }
}

function noteRequest(books: Books, message: Message, id: RequestId, method: string): void {
  const { open, settings } = books
  open.set(id, openRequest(books, message, id, method))
  const uri = recordIn(message, 'params')?.['uri']
  if (method === 'logging/setLevel') settings.set(method, message)
  else if (method === 'resources/subscribe') settings.set(`subscribe ${uri}`, message)
  else if (method === 'resources/unsubscribe') settings.delete(`subscribe ${uri}`)
}

function noteNotification(books: Books, message: Message, method: string): void {
  if (method === 'notifications/initialized') books.initialized = message
  else if (method === 'notifications/cancelled') {
    const id = recordIn(message, 'params')?.['requestId']
    if (isRequestId(id)) books.open.delete(id)
  }
}

/** The client answers a request of the owner: undefined when that owner is gone. */
function clientAnswer({ orphaned, asked }: Books, message: Message, id: RequestId): Message | undefined {
  if (orphaned.delete(id)) return undefined
  const ownersId = asked.get(id)
  asked.delete(id)
  return ownersId === undefined || ownersId === id ? message : { ...message, id: ownersId }
}

function fromClient(books: Books, line: string): string | undefined {
  const parsed = parse(line)
  for (const message of messagesOf(parsed)) {
    const { id, method } = message
    if (typeof method === 'string') {
      if (isRequestId(id)) noteRequest(books, message, id, method)
      else noteNotification(books, message, method)
    } else if (isRequestId(id)) {
      const answer = clientAnswer(books, message, id)
      if (answer === message || Array.isArray(parsed)) continue
      return answer === undefined ? undefined : JSON.stringify(answer)
    }
  }
  return line
}

function fromOwner(books: Books, line: string): string | undefined {
  const plain = plainResponse.exec(line)
  if (plain !== null) {
    return noteAnswer(books, JSON.parse(plain[1]!) as RequestId, plain[2] === 'result') ? line : undefined
  }
  const message = parse(line)
  if (!isRecord(message)) return line
  const { id, method } = message
  if (typeof method === 'string') {
    return isRequestId(id) ? ownerRequest(books, message, id, line) : ownerNotification(books, message, line)
  }
  return !isRequestId(id) || noteAnswer(books, id, 'result' in message) ? line : undefined
}

/** Whether the answer is for the client. */
function noteAnswer(books: Books, id: RequestId, isResult: boolean): boolean {
  if (books.swallowed.delete(id)) return false
  const request = books.open.get(id)
  if (request === undefined) return true
  if (books.isClosing && request.method === LISTEN) return false
  books.open.delete(id)
  if (request.method === 'initialize' && isResult) books.handshake = request.repeat
  return true
}

/** Each owner counts its requests anew; an id that a lost owner's request still has is made distinct for the client. */
function ownerRequest({ orphaned, asked, losses }: Books, message: Message, id: RequestId, line: string): string {
  if (!orphaned.has(id)) {
    asked.set(id, id)
    return line
  }
  const displayed = `castellan:${losses}:${JSON.stringify(id)}`
  asked.set(displayed, id)
  return JSON.stringify({ ...message, id: displayed })
}

function ownerNotification(books: Books, message: Message, line: string): string | undefined {
  const params = recordIn(message, 'params')
  if (message['method'] === ACKNOWLEDGED) {
    const id = recordIn(params, '_meta')?.[SUBSCRIPTION_ID_META_KEY]
    if (!isRequestId(id) || !books.open.has(id)) return line
    books.acknowledged.add(id)
    return books.acknowledgedBefore.delete(id) ? undefined : line
  }
  const cancelled = message['method'] === 'notifications/cancelled' ? params?.['requestId'] : undefined
  const displayed = [...books.asked].find(([, ownersId]) => ownersId === cancelled)?.[0]
  if (displayed === undefined) return line
  books.asked.delete(displayed)
  return displayed === cancelled ? line : JSON.stringify({ ...message, params: { ...params, requestId: displayed } })
}

function ownerLost(books: Books, ownerPid: number): readonly string[] {
  const { open, asked, orphaned, acknowledged, acknowledgedBefore } = books
  books.losses += 1
  books.isClosing = false
  books.swallowed.clear()
  acknowledgedBefore.clear()
  const told: string[] = []
  for (const id of asked.keys()) {
    orphaned.add(id)
    told.push(cancelledNotice(id))
  }
  asked.clear()
  for (const id of acknowledged) {
    if (open.has(id)) acknowledgedBefore.add(id)
    else acknowledged.delete(id)
  }
  for (const request of open.values()) {
    if (request.repeat !== undefined) continue
    open.delete(request.id)
    told.push(failure(request, underWay(request), { tool: request.tool, owner_pid: ownerPid, outcome: 'unknown' }))
  }
  return told
}

function replayRest(books: Books): readonly string[] {
  const { handshake, initialized, open, settings } = books
  const lines: string[] = []
  if (handshake !== undefined && initialized !== undefined) lines.push(JSON.stringify(initialized))
  const repeats = [...open.values()].map((request) => request.repeat).filter((repeat) => repeat !== undefined)
  for (const setting of settings.values()) if (!repeats.includes(setting)) lines.push(replayed(books, setting))
  for (const repeat of repeats) lines.push(JSON.stringify(repeat))
  return lines
}

function refuse(books: Books, line: string, text: string): readonly string[] {
  const answers: string[] = []
  for (const message of messagesOf(parse(line))) {
    const { id, method } = message
    if (typeof method !== 'string') continue
    if (isRequestId(id)) answers.push(failure(openRequest(books, message, id, method), text, {}))
    else noteNotification(books, message, method)
  }
  return answers
}

const underWay = ({ tool, method }: OpenRequest): string => lostUnderWay(tool ?? method)

const cancelledNotice = (requestId: RequestId): string =>
  JSON.stringify({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId, reason: 'The process that asked has ended.' },
  })

/** A tool call fails as a tool's answer, which the model sees; anything else as a protocol error. */
function failure({ id, method, isModern }: OpenRequest, message: string, details: ErrorDetails): string {
  const envelope = errorEnvelope({ code: 'ERR_OWNER_LOST', message, details })
  if (method !== 'tools/call') {
    return JSON.stringify({ jsonrpc: '2.0', id, error: { code: INTERNAL_ERROR, message, data: envelope } })
  }
  const result = {
    content: [{ type: 'text', text: JSON.stringify(envelope) }],
    structuredContent: envelope,
    isError: true,
    ...(isModern ? { resultType: 'complete' } : {}),
  }
  return JSON.stringify({ jsonrpc: '2.0', id, result })
}
