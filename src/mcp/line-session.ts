import {
  isJSONRPCRequest,
  type JSONRPCMessage,
  PROTOCOL_VERSION_META_KEY,
  parseJSONRPCMessage,
  type Transport,
  UnsupportedProtocolVersionError,
} from '@modelcontextprotocol/server'
import { type StdioServerHandle, serveStdio } from '@modelcontextprotocol/server/stdio'
import { clientCapabilitiesOf } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import type { TenantId } from '../contract/principal.ts'
import { type Random, randomId } from '../kernel/random.ts'
import { SlotSet } from '../kernel/slot-set.ts'
import type { Counted, InFlightCall } from '../tools/runtime/in-flight-calls.ts'
import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import { type Batches, createBatches } from './batch-replies.ts'
import { callOutcome } from './call-outcome.ts'
import {
  cancelledRequest,
  type EnvelopeCheck,
  envelopeClientName,
  isLegacyCall,
  isRecord,
  isRequestId,
  metaOf,
  type PlainToolCall,
  plainToolCall,
  tooMuch,
} from './call-request.ts'
import { envelopeCapabilities } from './calling-client.ts'
import { type RequestedSpelling, spellingFor, traitsOf } from './client-names.ts'
import { jsonRpcCodes, type RequestId } from './json-rpc.ts'
import type { OversizedLine } from './line-splitter.ts'
import type { LineTransport } from './line-transport.ts'
import type { ListKind } from './mcp-extension.ts'
import { initializeProblem } from './params-problem.ts'
import {
  announceChange,
  announceTools,
  createProtocolServer,
  type ProtocolConnection,
  type ProtocolDeps,
} from './protocol-server.ts'
import { MODERN_REVISION } from './server-facts.ts'
import { declaresTasks } from './task-store.ts'
import type { Era, Wire } from './wire.ts'

/**
 * One connection with one message per line: standard streams, the owner's local socket, or a pipe inside the process.
 * 1. The SDK decides the revision of the connection; until then, every message goes to it.
 * 2. After that a plain `tools/call` goes straight to the host and its reply is written as text.
 * 3. Every other message goes to the SDK, so the hot path never has to judge an unusual message.
 * 4. When the input ends, calls in progress may finish within the shutdown grace period; then they are cancelled.
 */
export type LineCaller = RequestedSpelling &
  Readonly<{
    principal: ToolCaller['principal']
    exposure: ToolCaller['exposure']
    transport?: ToolCaller['transport']
    /** The id of the session, if it continues one that another process served. */
    session?: string
  }>

export type LineSession = Readonly<{ closed: Promise<void>; close(): Promise<void> }>
export type LineSessionDeps = ProtocolDeps & Readonly<{ wire: Wire; isModernEnvelope: EnvelopeCheck; random: Random }>

type Phase = 'opening' | 'legacy-opening' | Era

const BATCH_REVISION = '2025-03-26'
const BATCH_MAX = 100

export class LineConnection {
  readonly closed: Promise<void>
  readonly #deps: LineSessionDeps
  readonly #transport: LineTransport
  readonly #base: LineCaller
  readonly #calls: Counted = { inFlight: 0 }
  readonly #callsUnderWay = new SlotSet<Readonly<{ id: RequestId; call: InFlightCall }>>()
  /** Requests that the SDK has and will answer. */
  readonly #sdkRequests = new Set<RequestId>()
  readonly #batches: Batches
  readonly #sdkTransport: Transport
  readonly #sdk: StdioServerHandle
  readonly #ended = new AbortController()
  readonly #connection: ProtocolConnection
  #server: ReturnType<typeof createProtocolServer> | undefined
  #caller: ToolCaller
  #phase: Phase = 'opening'
  #initializeId: RequestId | undefined
  #revision: string | undefined
  #inputEnded = false
  #graceTimer: NodeJS.Timeout | undefined
  #resolveClosed: () => void = () => {}

  constructor(deps: LineSessionDeps, transport: LineTransport, base: LineCaller) {
    this.#deps = deps
    this.#transport = transport
    this.#base = base
    this.#caller = this.#callerFor(undefined)
    this.#connection = {
      calls: this.#calls,
      session: { id: randomId(deps.random, 'line'), ended: this.#ended.signal },
      caller: () => this.#caller,
    }
    this.#batches = createBatches((line) => transport.send(line))
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    this.#sdkTransport = {
      start: async () => {},
      send: async (message) => this.#sendFromSdk(message),
      close: async () => this.#finish(),
    }
    this.#sdk = serveStdio(
      () => {
        this.#server = createProtocolServer(deps, this.#connection)
        return this.#server
      },
      {
        transport: this.#sdkTransport,
        onerror: (error) => deps.logger.debug('MCP line session reported an error', { error: error.message }),
      },
    )
    transport.onLine((line) => this.#onLine(line))
    transport.onOversizedLine?.((line) => this.#onOversizedLine(line))
    transport.onClose(() => this.#onInputEnd())
  }

  /** Ends the subscriptions with their final message, then the connection. */
  async close(): Promise<void> {
    await this.#sdk.close()
    await this.closed
  }

  announce(kind: ListKind): void {
    if (this.#isEstablished && this.#server !== undefined) announceChange(this.#server, kind)
  }

  /** Something may have changed for callers of the tenant. */
  async toolsChanged(tenant: TenantId): Promise<void> {
    if (this.#base.principal.tenant !== tenant || !this.#isEstablished || this.#server === undefined) return
    await announceTools(this.#deps.lists, this.#server, this.#connection)
  }

  get #isEstablished(): boolean {
    return this.#phase === 'legacy' || this.#phase === 'modern'
  }

  #callerFor(clientName: string | undefined): ToolCaller {
    const { principal, exposure, transport } = this.#base
    const traits = traitsOf(clientName)
    return {
      principal,
      exposure,
      transport: transport ?? 'stdio',
      ...spellingFor(traits, this.#base),
      addedArguments: traits.addedArguments,
    }
  }

  #onLine(line: string): void {
    if (line.length > limits.messageBytesMax) {
      this.#onOversizedLine({ head: line.slice(0, 512), tail: line.slice(-512) })
      return
    }
    const problem = tooMuch(line)
    if (problem !== undefined) {
      this.#transport.send(this.#deps.wire.errorResponse(null, jsonRpcCodes.invalidRequest, problem))
      return
    }
    let message: unknown
    try {
      message = JSON.parse(line)
    } catch {
      if (line.trim() === '') return
      this.#transport.send(
        this.#deps.wire.errorResponse(null, jsonRpcCodes.parseError, 'Parse error: the line is not valid JSON'),
      )
      return
    }
    if (Array.isArray(message)) this.#onBatch(message)
    else this.#onMessage(message)
  }

  #onMessage(message: unknown): void {
    const phase = this.#phase
    if (phase === 'legacy' || phase === 'modern') {
      const call = plainToolCall(message)
      if (call !== undefined && this.#isHot(message, call, phase)) {
        this.#startCall(call, phase)
        return
      }
      const cancelled = cancelledRequest(message)
      const pending = cancelled !== undefined && [...this.#callsUnderWay].find(({ id }) => id === cancelled)
      if (pending) {
        pending.call.cancel()
        return
      }
    }
    this.#deliver(message)
  }

  #isHot(message: unknown, call: PlainToolCall, era: Era): boolean {
    if (this.#deps.extensionToolNames.has(call.name)) return false
    if (declaresTasks(call.meta) && this.#deps.durationOf(this.#caller, call.name, call.args) !== 'short') return false
    if (this.#deps.mayAsk(this.#caller.principal, call.name) && this.#canBeAsked(call, era)) return false
    return era === 'modern' ? this.#deps.isModernEnvelope(message, call.meta) : isLegacyCall(call)
  }

  #canBeAsked({ meta }: PlainToolCall, era: Era): boolean {
    if (era === 'modern') return envelopeCapabilities(meta) !== undefined
    return clientCapabilitiesOf(this.#server?.getClientCapabilities()) !== undefined
  }

  #startCall({ id, name, args, progressToken }: PlainToolCall, era: Era): void {
    const { startCall, wire } = this.#deps
    const caller = this.#caller
    const progress =
      progressToken === undefined
        ? undefined
        : (update: Parameters<Wire['progress']>[1]) => this.#transport.send(wire.progress(progressToken, update))
    let underWay: Readonly<{ id: RequestId; call: InFlightCall }> | undefined
    const started = startCall(this.#calls, caller, name, args, progress, (answer, call) => {
      if (underWay !== undefined) this.#callsUnderWay.delete(underWay)
      this.#answer(id, caller, answer, era, call?.isCancelled() === true)
    })
    if (started === undefined) return
    underWay = { id, call: started }
    this.#callsUnderWay.add(underWay)
  }

  #answer(id: RequestId, caller: ToolCaller, answer: ToolAnswer, era: Era, cancelled: boolean): void {
    // The terminal waits for the end of a cancelled call to report its outcome; the protocol forbids an answer.
    if (cancelled && caller.transport !== 'cli') this.#batches.forget(id)
    else this.#reply(id, this.#deps.wire.callResponse(id, callOutcome(caller, answer, this.#revision), era))
    if (this.#inputEnded) this.#closeWhenIdle()
  }

  #reply(id: RequestId, text: string): void {
    if (!this.#batches.take(id, text)) this.#transport.send(text)
  }

  #onBatch(messages: readonly unknown[]): void {
    if (this.#revision !== BATCH_REVISION || messages.length === 0 || messages.length > BATCH_MAX) {
      const reason = `Invalid Request: batches of 1 to ${BATCH_MAX} messages exist only in protocol revision ${BATCH_REVISION}`
      this.#transport.send(this.#deps.wire.errorResponse(null, jsonRpcCodes.invalidRequest, reason))
      return
    }
    this.#batches.open(messages.filter((message) => isJSONRPCRequest(message)).map((message) => message.id))
    for (const message of messages) this.#onMessage(message)
  }

  /** Passes a message to the SDK and notes what its answer will decide. */
  #deliver(raw: unknown): void {
    let message: JSONRPCMessage
    try {
      message = parseJSONRPCMessage(raw)
    } catch {
      if (isRecord(raw) && ('result' in raw || 'error' in raw)) return
      const id = isRecord(raw) && isRequestId(raw['id']) ? raw['id'] : null
      const reason = 'Invalid Request: the message is not valid JSON-RPC 2.0'
      this.#transport.send(this.#deps.wire.errorResponse(id, jsonRpcCodes.invalidRequest, reason))
      return
    }
    if (this.#refusesRevision(message) || this.#refusesInitialize(message)) return
    if ('method' in message) this.#notePhase(message)
    if (isJSONRPCRequest(message) && message.method !== 'subscriptions/listen') this.#sdkRequests.add(message.id)
    const cancelled = cancelledRequest(message)
    if (cancelled !== undefined) this.#sdkAnswered(cancelled)
    this.#sdkTransport.onmessage?.(message)
  }

  /** The SDK checks the revision of the first stateless request only; every later one must name a known one too. */
  #refusesRevision(message: JSONRPCMessage): boolean {
    if (this.#phase !== 'modern' || !isJSONRPCRequest(message)) return false
    const requested = metaOf(message)?.[PROTOCOL_VERSION_META_KEY]
    if (typeof requested !== 'string' || requested === MODERN_REVISION) return false
    const error = new UnsupportedProtocolVersionError({ supported: [MODERN_REVISION], requested })
    this.#reply(message.id, this.#deps.wire.errorResponse(message.id, error.code, error.message, error.data))
    return true
  }

  /** The SDK would refuse it too, but with the output of its schema library as the reason. */
  #refusesInitialize(message: JSONRPCMessage): boolean {
    if (!isJSONRPCRequest(message) || message.method !== 'initialize' || this.#phase === 'modern') return false
    const meta = metaOf(message)
    if (meta !== undefined && PROTOCOL_VERSION_META_KEY in meta) return false
    const problem = initializeProblem(message.params)
    if (problem === undefined) return false
    this.#reply(message.id, this.#deps.wire.errorResponse(message.id, jsonRpcCodes.invalidParams, problem))
    return true
  }

  #notePhase(message: JSONRPCMessage & { method: string }): void {
    if (this.#phase !== 'opening' && this.#phase !== 'legacy-opening') return
    const meta = metaOf(message)
    if (isJSONRPCRequest(message) && this.#deps.isModernEnvelope(message, meta)) {
      if (this.#phase === 'legacy-opening') return
      this.#caller = this.#callerFor(envelopeClientName(meta))
      if (message.method !== 'server/discover') this.#phase = 'modern'
      return
    }
    if (meta !== undefined && PROTOCOL_VERSION_META_KEY in meta) return
    this.#phase = 'legacy-opening'
    if (isJSONRPCRequest(message) && message.method === 'initialize') {
      this.#initializeId = message.id
      const client = message.params?.['clientInfo']
      const name = isRecord(client) ? client['name'] : undefined
      this.#caller = this.#callerFor(typeof name === 'string' ? name : undefined)
    }
  }

  #sendFromSdk(message: JSONRPCMessage): void {
    const id = 'method' in message ? undefined : message.id
    const text = JSON.stringify(message)
    if (id === undefined) {
      this.#transport.send(text)
      return
    }
    if (id === this.#initializeId && 'result' in message) {
      this.#initializeId = undefined
      this.#phase = 'legacy'
      this.#revision = String(message.result['protocolVersion'])
    }
    this.#reply(id, text)
    this.#sdkAnswered(id)
  }

  #sdkAnswered(id: RequestId): void {
    this.#sdkRequests.delete(id)
    if (this.#inputEnded) this.#closeWhenIdle()
  }

  #onOversizedLine({ head, tail }: OversizedLine): void {
    const reason = `Invalid Request: a message must not exceed ${limits.messageBytesMax} bytes`
    const data = { code: 'ERR_TOO_LARGE', limit: limits.messageBytesMax }
    this.#transport.send(
      this.#deps.wire.errorResponse(idAtTheEnds(head, tail), jsonRpcCodes.invalidRequest, reason, data),
    )
  }

  #onInputEnd(): void {
    if (this.#inputEnded) return
    this.#inputEnded = true
    this.#graceTimer = setTimeout(() => this.#abandon(), limits.shutdownGraceMs)
    this.#closeWhenIdle()
  }

  #closeWhenIdle(): void {
    if (this.#calls.inFlight === 0 && this.#sdkRequests.size === 0) this.#abandon()
  }

  #abandon(): void {
    for (const { call } of this.#callsUnderWay) call.cancel(new Error('The connection ended'))
    this.#sdkTransport.onclose?.()
    this.#finish()
  }

  #finish(): void {
    clearTimeout(this.#graceTimer)
    this.#inputEnded = true
    this.#ended.abort()
    this.#transport.close()
    this.#resolveClosed()
  }
}

/** The id of a message of which only the two ends are known: clients put it first or last. */
export function idAtTheEnds(head: string, tail: string): RequestId | null {
  const first = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,15}|"(?:[^"\\]|\\.){0,200}")\s*,/.exec(
    head,
  )
  const last = /,\s*"id"\s*:\s*(-?\d{1,15}|"(?:[^"\\]|\\.){0,200}")\s*\}\s*$/.exec(tail)
  const text = first?.[1] ?? last?.[1]
  if (text === undefined) return null
  try {
    return JSON.parse(text) as RequestId
  } catch {
    return null
  }
}
