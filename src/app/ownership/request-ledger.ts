import type { ErrorDetails } from '../../contract/app-error.ts'
import { errorEnvelope } from '../../contract/error-envelope.ts'
import { lostUnderWay } from '../../contract/owner-lost.ts'
import { errorResponse, jsonRpcCodes, type RequestId } from '../../mcp/json-rpc.ts'

type Message = Readonly<Record<string, unknown>>

/**
 * What a bridge must remember of a conversation to continue with another owner: the handshake, the settings, the unanswered
 * requests. It only records; the bridge sends.
 */
export type RequestLedger = Readonly<{
  /** Records a line of the client. Returns the line for the owner, or undefined if it concerns only a lost owner. */
  fromClient(line: string): string | undefined
  /** Records a line of the owner. Returns the line for the client, or undefined if the client must not see it. */
  fromOwner(line: string): string | undefined
  /** The owner is about to shut down: it will end open subscriptions, and those continue with the next one. */
  ownerClosing(): void
  /** The owner has ended. Returns the answers for the client; repeatable requests are retained for `replay`. */
  ownerLost(ownerPid: number): readonly string[]
  /** The handshake for a new owner, to be answered before anything else is sent; undefined if there is none. */
  replayHandshake(): string | undefined
  /** Settings and repeatable requests for a new owner. */
  replayRest(): readonly string[]
  /** Nobody took over in time. Returns the answers for all open requests. */
  giveUp(message: string): readonly string[]
  /** The answers for a line of the client while there is no owner. */
  refuse(line: string, message: string): readonly string[]
  /** Unanswered requests of the client. */
  openRequests(): number
  /** Whether lines still need `fromClient` and `fromOwner` although the owner can no longer be lost. */
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
  /** The request to repeat; undefined if repeating it could do something twice. */
  repeat: Message | undefined
}>

const PROTOCOL_VERSION_META_KEY = 'io.modelcontextprotocol/protocolVersion'
const SUBSCRIPTION_ID_META_KEY = 'io.modelcontextprotocol/subscriptionId'
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'
const LISTEN = 'subscriptions/listen'

/** A response as our own sessions write it; the id is enough, so a long answer is not parsed. */
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

type LedgerState = {
  readonly isReadOnlyTool: LedgerOptions['isReadOnlyTool']
  readonly open: Map<RequestId, OpenRequest>
  readonly settings: Map<string, Message>
  /** Requests of the owner that the client has not answered: the id that the client sees → the owner's id. */
  readonly ownerRequests: Map<RequestId, RequestId>
  /** Ids, as the client sees them, of requests whose owner has ended. */
  readonly orphaned: Set<RequestId>
  /** Ids of replayed requests; their answers are not for the client. */
  readonly swallowed: Set<RequestId>
  readonly acknowledged: Set<RequestId>
  /** Subscriptions that an earlier owner has acknowledged to the client. */
  readonly acknowledgedBefore: Set<RequestId>
  handshake: Message | undefined
  handshakeReplayId: string | undefined
  initialized: Message | undefined
  isClosing: boolean
  losses: number
  replays: number
}

export function createRequestLedger({ isReadOnlyTool }: LedgerOptions): RequestLedger {
  const state: LedgerState = {
    isReadOnlyTool,
    open: new Map(),
    settings: new Map(),
    ownerRequests: new Map(),
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
  const { open, swallowed, acknowledgedBefore, orphaned, ownerRequests } = state
  return {
    fromClient: (line) => fromClient(state, line),
    fromOwner: (line) => fromOwner(state, line),
    ownerClosing() {
      state.isClosing = true
    },
    ownerLost: (ownerPid) => ownerLost(state, ownerPid),
    replayHandshake() {
      if (state.handshake === undefined) return undefined
      const line = replayed(state, state.handshake)
      state.handshakeReplayId = replayId(state.replays)
      return line
    },
    replayRest: () => replayRest(state),
    giveUp(message) {
      const answers = [...open.values()].map((request) => failure(request, message, {}))
      open.clear()
      return answers
    },
    refuse: (line, text) => refuse(state, line, text),
    openRequests: () => open.size,
    mustKeepWatching: () =>
      swallowed.size > 0 || acknowledgedBefore.size > 0 || orphaned.size > 0 || ownerRequests.size > 0,
    isHandshakeAnswered: () => state.handshakeReplayId === undefined || !swallowed.has(state.handshakeReplayId),
  }
}

const replayId = (count: number): string => `castellan:replay:${count}`

function replayed(state: LedgerState, message: Message): string {
  const id = replayId(++state.replays)
  state.swallowed.add(id)
  return JSON.stringify({ ...message, id })
}

function openRequest(state: LedgerState, message: Message, id: RequestId, method: string): OpenRequest {
  const params = recordIn(message, 'params')
  const isCall = method === 'tools/call'
  const tool = isCall && typeof params?.['name'] === 'string' ? params['name'] : undefined
  const isRepeatable = !isCall || (tool !== undefined && state.isReadOnlyTool(tool, params?.['arguments'] ?? {}))
  const isModern = recordIn(params, '_meta')?.[PROTOCOL_VERSION_META_KEY] !== undefined
  return { id, method, tool, isModern, repeat: isRepeatable ? message : undefined }
}

function noteRequest(state: LedgerState, message: Message, id: RequestId, method: string): void {
  const { open, settings } = state
  open.set(id, openRequest(state, message, id, method))
  const uri = recordIn(message, 'params')?.['uri']
  if (method === 'logging/setLevel') settings.set(method, message)
  else if (method === 'resources/subscribe') settings.set(`subscribe ${uri}`, message)
  else if (method === 'resources/unsubscribe') settings.delete(`subscribe ${uri}`)
}

function noteNotification(state: LedgerState, message: Message, method: string): void {
  if (method === 'notifications/initialized') state.initialized = message
  else if (method === 'notifications/cancelled') {
    const id = recordIn(message, 'params')?.['requestId']
    if (isRequestId(id)) state.open.delete(id)
  }
}

/** The client answers a request of the owner: undefined if that owner has ended. */
function clientAnswer({ orphaned, ownerRequests }: LedgerState, message: Message, id: RequestId): Message | undefined {
  if (orphaned.delete(id)) return undefined
  const ownersId = ownerRequests.get(id)
  ownerRequests.delete(id)
  return ownersId === undefined || ownersId === id ? message : { ...message, id: ownersId }
}

function fromClient(state: LedgerState, line: string): string | undefined {
  const parsed = parse(line)
  for (const message of messagesOf(parsed)) {
    const { id, method } = message
    if (typeof method === 'string') {
      if (isRequestId(id)) noteRequest(state, message, id, method)
      else noteNotification(state, message, method)
    } else if (isRequestId(id)) {
      const answer = clientAnswer(state, message, id)
      if (answer === message || Array.isArray(parsed)) continue
      return answer === undefined ? undefined : JSON.stringify(answer)
    }
  }
  return line
}

function fromOwner(state: LedgerState, line: string): string | undefined {
  const plain = plainResponse.exec(line)
  if (plain !== null) {
    return noteAnswer(state, JSON.parse(plain[1]!) as RequestId, plain[2] === 'result') ? line : undefined
  }
  const message = parse(line)
  if (!isRecord(message)) return line
  const { id, method } = message
  if (typeof method === 'string') {
    return isRequestId(id) ? ownerRequest(state, message, id, line) : ownerNotification(state, message, line)
  }
  return !isRequestId(id) || noteAnswer(state, id, 'result' in message) ? line : undefined
}

/** Whether the answer is for the client. */
function noteAnswer(state: LedgerState, id: RequestId, isResult: boolean): boolean {
  if (state.swallowed.delete(id)) return false
  const request = state.open.get(id)
  if (request === undefined) return true
  if (state.isClosing && request.method === LISTEN) return false
  state.open.delete(id)
  if (request.method === 'initialize' && isResult) state.handshake = request.repeat
  return true
}

/**
 * Each owner numbers its requests from the start; an id that a lost owner's request still has is made distinct for the client.
 */
function ownerRequest(
  { orphaned, ownerRequests, losses }: LedgerState,
  message: Message,
  id: RequestId,
  line: string,
): string {
  if (!orphaned.has(id)) {
    ownerRequests.set(id, id)
    return line
  }
  const displayed = `castellan:${losses}:${JSON.stringify(id)}`
  ownerRequests.set(displayed, id)
  return JSON.stringify({ ...message, id: displayed })
}

function ownerNotification(state: LedgerState, message: Message, line: string): string | undefined {
  const params = recordIn(message, 'params')
  if (message['method'] === ACKNOWLEDGED) {
    const id = recordIn(params, '_meta')?.[SUBSCRIPTION_ID_META_KEY]
    if (!isRequestId(id) || !state.open.has(id)) return line
    state.acknowledged.add(id)
    return state.acknowledgedBefore.delete(id) ? undefined : line
  }
  const cancelled = message['method'] === 'notifications/cancelled' ? params?.['requestId'] : undefined
  const displayed = [...state.ownerRequests].find(([, ownersId]) => ownersId === cancelled)?.[0]
  if (displayed === undefined) return line
  state.ownerRequests.delete(displayed)
  return displayed === cancelled ? line : JSON.stringify({ ...message, params: { ...params, requestId: displayed } })
}

function ownerLost(state: LedgerState, ownerPid: number): readonly string[] {
  const { open, ownerRequests, orphaned, acknowledged, acknowledgedBefore } = state
  state.losses += 1
  state.isClosing = false
  state.swallowed.clear()
  acknowledgedBefore.clear()
  const told: string[] = []
  for (const id of ownerRequests.keys()) {
    orphaned.add(id)
    told.push(cancelledNotice(id))
  }
  ownerRequests.clear()
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

function replayRest(state: LedgerState): readonly string[] {
  const { handshake, initialized, open, settings } = state
  const lines: string[] = []
  if (handshake !== undefined && initialized !== undefined) lines.push(JSON.stringify(initialized))
  const repeats = [...open.values()].map((request) => request.repeat).filter((repeat) => repeat !== undefined)
  for (const setting of settings.values()) if (!repeats.includes(setting)) lines.push(replayed(state, setting))
  for (const repeat of repeats) lines.push(JSON.stringify(repeat))
  return lines
}

function refuse(state: LedgerState, line: string, text: string): readonly string[] {
  const answers: string[] = []
  for (const message of messagesOf(parse(line))) {
    const { id, method } = message
    if (typeof method !== 'string') continue
    if (isRequestId(id)) answers.push(failure(openRequest(state, message, id, method), text, {}))
    else noteNotification(state, message, method)
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

/** A tool call fails as a tool's answer, which the model sees; any other request as a protocol error. */
function failure({ id, method, isModern }: OpenRequest, message: string, details: ErrorDetails): string {
  const envelope = errorEnvelope({ code: 'ERR_OWNER_LOST', message, details })
  if (method !== 'tools/call') {
    return errorResponse(id, jsonRpcCodes.internalError, message, envelope)
  }
  const result = {
    content: [{ type: 'text', text: JSON.stringify(envelope) }],
    structuredContent: envelope,
    isError: true,
    ...(isModern ? { resultType: 'complete' } : {}),
  }
  return JSON.stringify({ jsonrpc: '2.0', id, result })
}
