import type { ErrorDetails } from '../../contract/app-error.ts'

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

export type LedgerOptions = Readonly<{
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
const REPLAY_PREFIX = 'castellan:replay:'

/** A response as our own sessions write it; the id is enough, so a long answer need not be parsed. */
const plainResponse = /^\{"jsonrpc":"2\.0","id":("(?:[^"\\]|\\.)*"|-?\d{1,15}),"(?:result|error)":/

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

export function createRequestLedger({ isReadOnlyTool }: LedgerOptions): RequestLedger {
  const open = new Map<RequestId, OpenRequest>()
  const settings = new Map<string, Message>()
  /** Requests of the owner that the client has not answered, by the id that the client sees. */
  const asked = new Map<RequestId, RequestId>()
  const orphaned = new Set<RequestId>()
  const swallowed = new Set<RequestId>()
  const acknowledged = new Set<RequestId>()
  const acknowledgedBefore = new Set<RequestId>()
  let handshake: Message | undefined
  let initialized: Message | undefined
  let isClosing = false
  let generation = 0
  let replays = 0
  let handshakeReplayId: string | undefined

  const openRequest = (message: Message, id: RequestId, method: string): OpenRequest => {
    const params = recordIn(message, 'params')
    const isCall = method === 'tools/call'
    const tool = isCall && typeof params?.['name'] === 'string' ? params['name'] : undefined
    const isRepeatable = !isCall || (tool !== undefined && isReadOnlyTool(tool, params?.['arguments'] ?? {}))
    const isModern = recordIn(params, '_meta')?.[PROTOCOL_VERSION_META_KEY] !== undefined
    return { id, method, tool, isModern, repeat: isRepeatable ? message : undefined }
  }

  const noteRequest = (message: Message, id: RequestId, method: string): void => {
    open.set(id, openRequest(message, id, method))
    const uri = recordIn(message, 'params')?.['uri']
    if (method === 'logging/setLevel') settings.set(method, message)
    else if (method === 'resources/subscribe') settings.set(`subscribe ${uri}`, message)
    else if (method === 'resources/unsubscribe') settings.delete(`subscribe ${uri}`)
  }

  const noteNotification = (message: Message, method: string): void => {
    if (method === 'notifications/initialized') initialized = message
    else if (method === 'notifications/cancelled') {
      const id = recordIn(message, 'params')?.['requestId']
      if (isRequestId(id)) open.delete(id)
    }
  }

  /** The client answers a request of the owner: undefined when that owner is gone. */
  const clientAnswer = (message: Message, id: RequestId): Message | undefined => {
    if (orphaned.delete(id)) return undefined
    const ownersId = asked.get(id)
    asked.delete(id)
    return ownersId === undefined || ownersId === id ? message : { ...message, id: ownersId }
  }

  const noteAnswer = (id: RequestId, succeeded: boolean): boolean => {
    if (swallowed.delete(id)) return false
    const request = open.get(id)
    if (request === undefined) return true
    if (isClosing && request.method === LISTEN) return false
    open.delete(id)
    if (request.method === 'initialize' && succeeded) handshake = request.repeat
    return true
  }

  /** Each owner counts its requests anew; an id that a lost owner's request still has is made distinct for the client. */
  const ownerRequest = (message: Message, id: RequestId, line: string): string => {
    if (!orphaned.has(id)) {
      asked.set(id, id)
      return line
    }
    const shown = `castellan:${generation}:${JSON.stringify(id)}`
    asked.set(shown, id)
    return JSON.stringify({ ...message, id: shown })
  }

  const ownerNotification = (message: Message, line: string): string | undefined => {
    const params = recordIn(message, 'params')
    if (message['method'] === ACKNOWLEDGED) {
      const id = recordIn(params, '_meta')?.[SUBSCRIPTION_ID_META_KEY]
      if (!isRequestId(id) || !open.has(id)) return line
      acknowledged.add(id)
      return acknowledgedBefore.delete(id) ? undefined : line
    }
    const cancelled = message['method'] === 'notifications/cancelled' ? params?.['requestId'] : undefined
    if (!isRequestId(cancelled)) return line
    const shown = [...asked].find(([, ownersId]) => ownersId === cancelled)?.[0]
    if (shown === undefined) return line
    asked.delete(shown)
    return shown === cancelled ? line : JSON.stringify({ ...message, params: { ...params, requestId: shown } })
  }

  const replayed = (message: Message): string => {
    const id = `${REPLAY_PREFIX}${++replays}`
    swallowed.add(id)
    return JSON.stringify({ ...message, id })
  }

  return {
    fromClient(line) {
      const parsed = parse(line)
      for (const message of messagesOf(parsed)) {
        const { id, method } = message
        if (typeof method === 'string') {
          if (isRequestId(id)) noteRequest(message, id, method)
          else noteNotification(message, method)
        } else if (isRequestId(id)) {
          const answer = clientAnswer(message, id)
          if (answer === message || Array.isArray(parsed)) continue
          return answer === undefined ? undefined : JSON.stringify(answer)
        }
      }
      return line
    },
    fromOwner(line) {
      const plain = plainResponse.exec(line)
      if (plain !== null) {
        const isResult = line.startsWith('"result"', plain[0].length - '"result":'.length)
        return noteAnswer(JSON.parse(plain[1]!) as RequestId, isResult) ? line : undefined
      }
      const message = parse(line)
      if (!isRecord(message)) return line
      const { id, method } = message
      if (typeof method === 'string') {
        return isRequestId(id) ? ownerRequest(message, id, line) : ownerNotification(message, line)
      }
      return !isRequestId(id) || noteAnswer(id, 'result' in message) ? line : undefined
    },
    ownerClosing() {
      isClosing = true
    },
    ownerLost(ownerPid) {
      generation += 1
      isClosing = false
      swallowed.clear()
      for (const id of acknowledged) if (!open.has(id)) acknowledged.delete(id)
      acknowledgedBefore.clear()
      const told: string[] = []
      for (const id of asked.keys()) {
        orphaned.add(id)
        told.push(cancelledNotice(id))
      }
      asked.clear()
      for (const request of open.values()) {
        if (request.repeat !== undefined) {
          if (acknowledged.has(request.id)) acknowledgedBefore.add(request.id)
          continue
        }
        open.delete(request.id)
        told.push(failure(request, underWay(request), { tool: request.tool, owner_pid: ownerPid, outcome: 'unknown' }))
      }
      return told
    },
    replayHandshake() {
      if (handshake === undefined) return undefined
      const line = replayed(handshake)
      handshakeReplayId = `${REPLAY_PREFIX}${replays}`
      return line
    },
    replayRest() {
      const lines: string[] = []
      if (handshake !== undefined && initialized !== undefined) lines.push(JSON.stringify(initialized))
      const openSettings = new Set([...open.values()].map((request) => request.repeat))
      for (const setting of settings.values()) if (!openSettings.has(setting)) lines.push(replayed(setting))
      for (const request of open.values()) if (request.repeat !== undefined) lines.push(JSON.stringify(request.repeat))
      return lines
    },
    giveUp(message) {
      const answers = [...open.values()].map((request) => failure(request, message, {}))
      open.clear()
      return answers
    },
    refuse(line, text) {
      const answers: string[] = []
      for (const message of messagesOf(parse(line))) {
        const { id, method } = message
        if (typeof method !== 'string') continue
        if (isRequestId(id)) answers.push(failure(openRequest(message, id, method), text, {}))
        else noteNotification(message, method)
      }
      return answers
    },
    openRequests: () => open.size,
    mustKeepWatching: () => swallowed.size > 0 || acknowledgedBefore.size > 0 || orphaned.size > 0 || asked.size > 0,
    isHandshakeAnswered: () => handshakeReplayId === undefined || !swallowed.has(handshakeReplayId),
  }
}

const underWay = ({ tool, method }: OpenRequest): string =>
  `The process that owned the state ended while ${tool ?? method} was under way; it may or may not have taken effect. Check, then call again.`

const cancelledNotice = (requestId: RequestId): string =>
  JSON.stringify({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId, reason: 'The process that asked has ended.' },
  })

/** A tool call fails as a tool's answer, which the model sees; anything else as a protocol error. */
function failure({ id, method, isModern }: OpenRequest, message: string, details: ErrorDetails): string {
  const error = { code: 'ERR_OWNER_LOST', message, details }
  if (method !== 'tools/call') {
    return JSON.stringify({ jsonrpc: '2.0', id, error: { code: INTERNAL_ERROR, message, data: { error } } })
  }
  const result = {
    content: [{ type: 'text', text: JSON.stringify({ error }) }],
    structuredContent: { error },
    isError: true,
    ...(isModern ? { resultType: 'complete' } : {}),
  }
  return JSON.stringify({ jsonrpc: '2.0', id, result })
}
