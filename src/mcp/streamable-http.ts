import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  classifyInboundRequest,
  createMcpHandler,
  isInitializeRequest,
  isJsonContentType,
  type McpHttpHandler,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import { limits } from '../contract/limits.ts'
import type { McpSessionMemory } from '../contract/mcp-sessions.ts'
import type { TenantId } from '../contract/principal.ts'
import { readBody } from '../http/exchange/read-body.ts'
import { type Reply, replyOver } from '../http/exchange/reply.ts'
import type { RequestHead } from '../http/exchange/request-head.ts'
import { sendJson } from '../http/exchange/send-text.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Random } from '../kernel/random.ts'
import type { InFlightCall, InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import type { Presence } from '../tools/runtime/presence.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
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
  readMessage,
} from './call-request.ts'
import { envelopeCapabilities } from './calling-client.ts'
import { exposureOfUrl } from './exposure.ts'
import type { AnswerForwarding } from './forward-answers.ts'
import { type HttpCall, serveHttpCall } from './http-call.ts'
import { type HttpCaller, originOf, type ResolvedCaller, toolCaller } from './http-caller.ts'
import {
  callUnderWay,
  cancelWhenClosed,
  headerOf,
  isInterested,
  NO_SESSION,
  startUnderWay,
  unlessEnded,
  useCaller,
} from './http-session-use.ts'
import { createHttpSessions, type HttpSession, type HttpSessions } from './http-sessions.ts'
import { jsonRpcCodes, type RequestId } from './json-rpc.ts'
import { createListeningCallers, type ListeningCallers } from './listening-callers.ts'
import type { ListKind } from './mcp-extension.ts'
import { createOpenResponses, type GatewaySource, type OpenResponses } from './open-responses.ts'
import { openSession } from './open-session.ts'
import { initializeProblem } from './params-problem.ts'
import { announceChange, announceTools, createProtocolServer, type ProtocolDeps } from './protocol-server.ts'
import { createResourceStreams, type ResourceStreams } from './resource-streams.ts'
import { MODERN_REVISION } from './server-facts.ts'
import { messageHere } from './session-replies.ts'
import { declaresTasks } from './task-store.ts'
import { sendWebResponse, webRequestOf } from './web-bridge.ts'
import type { Wire } from './wire.ts'

/**
 * Streamable HTTP for both kinds of revision on one address. The caller has checked authentication, Host and Origin.
 * 1. A plain tool call is answered here; every other request goes to the SDK through its web-standard interface.
 * 2. A request is stateless if its body says so (the SDK's classification); otherwise it belongs to a session.
 */
type HttpTransportDeps = ProtocolDeps &
  Readonly<{
    inFlight: Pick<InFlightCalls, 'closing'>
    wire: Wire
    isModernEnvelope: EnvelopeCheck
    clock: Clock
    random: Random
    presence: Presence
    sessionMemory: (() => Promise<McpSessionMemory | undefined>) | undefined
    gateways: GatewaySource
    passing: AnswerForwarding | undefined
  }>

type ServeCall = (request: HttpCall, onSettled?: () => void) => InFlightCall | undefined

const SESSION_NOT_FOUND = -32001
const RETRY_AFTER_SECONDS = '5'

export class StreamableHttp {
  readonly #deps: HttpTransportDeps
  readonly #sessions: HttpSessions
  readonly #callers = new WeakMap<Request, ToolCaller>()
  /** A client that calls all day needs no new object for each call. */
  #lastCaller: Readonly<{ caller: ResolvedCaller; clientName: string | undefined; made: ToolCaller }> | undefined
  readonly #stateless: McpHttpHandler
  readonly #listening: ListeningCallers
  readonly #streams: ResourceStreams
  readonly #responses: OpenResponses

  constructor(deps: HttpTransportDeps) {
    this.#deps = deps
    this.#listening = createListeningCallers(deps)
    this.#streams = createResourceStreams({ ...deps, listening: this.#listening })
    this.#sessions = createHttpSessions(deps)
    this.#responses = createOpenResponses({ ...deps, sessions: this.#sessions })
    this.#stateless = createMcpHandler(
      ({ requestInfo }) => {
        const caller = this.#callers.get(requestInfo!)!
        return createProtocolServer(deps, {
          isOfGateway: caller.principal.gateway !== undefined,
          caller: () => caller,
        })
      },
      {
        legacy: 'reject',
        bus: this.#listening.bus,
        maxRequestBodySize: limits.messageBytesMax,
        onerror: (error) => deps.logger.debug('MCP request reported an error', { error: error.message }),
      },
    )
  }

  handle(req: IncomingMessage, res: ServerResponse, input: HttpCaller): void {
    let caller: ResolvedCaller
    try {
      caller = hasExposure(input) ? input : { ...input, exposure: exposureOfUrl(req.url) }
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'the address is not valid'
      this.#refuse(res, 400, jsonRpcCodes.invalidRequest, `Bad Request: ${reason}`)
      return
    }
    if (this.#deps.inFlight.closing) {
      this.#refuse(res, 503, jsonRpcCodes.serverError, 'The server is shutting down. Connect again after the restart.')
    } else if (req.method === 'GET' || req.method === 'DELETE') {
      this.#getOrDelete(req, res, caller)
    } else if (req.method !== 'POST') {
      this.#refuse(res, 405, jsonRpcCodes.serverError, 'Method not allowed.')
    } else if (!isJson(req.headers['content-type'])) {
      this.#refuse(res, 415, jsonRpcCodes.serverError, 'Unsupported Media Type: Content-Type must be application/json')
    } else {
      readBody(req, limits.messageBytesMax, (body) => {
        const reason = `Payload Too Large: a message must not exceed ${limits.messageBytesMax} bytes`
        if (body === 'too-large') this.#refuse(res, 413, jsonRpcCodes.serverError, reason)
        else if (body !== 'disconnected') this.#post(req, res, caller, body.toString())
      })
    }
  }

  /** A plain tool call in one POST, answered in one piece: serves it, or returns false and has done nothing. */
  servePlain(req: RequestHead, text: string, caller: HttpCaller, reply: Reply): boolean {
    if (!hasExposure(caller) || this.#deps.inFlight.closing || !isJson(req.headers['content-type'])) return false
    const message = readMessage(text)
    return 'body' in message && this.#serveCall(req, reply, undefined, caller, message.body)
  }

  announce(kind: ListKind): void {
    for (const session of this.#sessions.all()) announceChange(session.server, kind)
    if (kind === 'tools') this.#stateless.notify.toolsChanged()
    else if (kind === 'prompts') this.#stateless.notify.promptsChanged()
    else this.#stateless.notify.resourcesChanged()
  }

  /** Something may have changed for callers of the tenant. */
  async toolsChanged(tenant: TenantId): Promise<void> {
    await this.#responses.reviewGateways(tenant)
    const sessions = [...this.#sessions.all()].filter(({ caller }) => caller.principal.tenant === tenant)
    const content = await this.#deps.content?.()
    for (const { server, connection, caller } of sessions) {
      await announceTools(this.#deps.lists, server, connection)
      if (content !== undefined) await connection.subscriptions?.review(content, caller.principal)
    }
    await this.#streams.review(tenant)
    await this.#listening.toolsChanged(tenant)
  }

  sweep(): void {
    this.#sessions.sweep()
  }

  async close(): Promise<void> {
    this.#responses.close()
    await this.#stateless.close()
    await this.#sessions.close()
  }

  #statelessCaller(req: RequestHead, caller: ResolvedCaller, clientName: string | undefined): ToolCaller {
    const last = this.#lastCaller
    const isSame =
      last?.caller === caller && last.clientName === clientName && last.made.origin === originOf(req, caller)
    if (isSame) return last.made
    const made = toolCaller(req, caller, clientName)
    this.#lastCaller = { caller, clientName, made }
    return made
  }

  #refuse(res: ServerResponse, status: number, code: number, message: string, id: RequestId | null = null): void {
    if (status === 503) res.setHeader('retry-after', RETRY_AFTER_SECONDS)
    if (status === 405) res.setHeader('allow', 'GET, POST, DELETE')
    if (status === 413) res.setHeader('connection', 'close')
    sendJson(res, status, this.#deps.wire.errorResponse(id, code, message))
  }

  #refusing(res: ServerResponse, id: RequestId | null) {
    return (status: 404 | 503, reason: string): void =>
      this.#refuse(res, status, status === 404 ? SESSION_NOT_FOUND : jsonRpcCodes.serverError, reason, id)
  }

  #throughSdk(
    req: IncomingMessage,
    res: ServerResponse,
    { principal }: HttpCaller,
    serve: (request: Request) => Promise<Response>,
  ): void {
    this.#responses.watch(res, principal)
    Promise.resolve()
      .then(() => serve(webRequestOf(req, res)))
      .then((response) => sendWebResponse(response, res))
      .catch((error: unknown) => {
        this.#deps.logger.debug('MCP request ended early', { error: String(error) })
        if (res.headersSent) res.destroy()
        else this.#refuse(res, 400, jsonRpcCodes.invalidRequest, 'Bad Request: the request could not be served')
      })
  }

  #post(req: IncomingMessage, res: ServerResponse, caller: ResolvedCaller, text: string): void {
    const message = readMessage(text)
    if ('problem' in message) {
      this.#refuse(res, 400, message.code, message.problem)
      return
    }
    const { body } = message
    if (this.#serveCall(req, replyOver(res), res, caller, body)) return
    const version = headerOf(req, 'mcp-protocol-version')
    const method = headerOf(req, 'mcp-method')
    const route = classifyInboundRequest({
      httpMethod: 'POST',
      body,
      ...(version === undefined ? {} : { protocolVersionHeader: version }),
      ...(method === undefined ? {} : { mcpMethodHeader: method }),
    })
    if (route.kind === 'legacy') {
      this.#postToSession(req, res, caller, body)
      return
    }
    this.#throughSdk(req, res, caller, async (request) => {
      const made = toolCaller(req, caller, envelopeClientName(metaOf(body)))
      this.#callers.set(request, made)
      const parsedBody = await this.#streams.subscribed(res, made, body)
      return await this.#listening.as(made, () => this.#stateless.fetch(request, { parsedBody }))
    })
  }

  /** A plain tool call, if it is one. Without a response there can be no stream for its progress. */
  #serveCall(
    req: RequestHead,
    reply: Reply,
    res: ServerResponse | undefined,
    caller: ResolvedCaller,
    body: unknown,
  ): boolean {
    const call = plainToolCall(body)
    if (call === undefined || this.#deps.extensionToolNames.has(call.name)) return false
    if (call.progressToken !== undefined && res === undefined) return false
    const serve: ServeCall = (request, onSettled) => serveHttpCall(this.#deps, reply, res, request, onSettled)
    return (
      this.#serveStatelessCall(req, serve, caller, body, call) || this.#serveSessionCall(req, res, serve, caller, call)
    )
  }

  #serveStatelessCall(
    req: RequestHead,
    serve: ServeCall,
    caller: ResolvedCaller,
    body: unknown,
    call: PlainToolCall,
  ): boolean {
    const { headers } = req
    if (headers['mcp-protocol-version'] !== MODERN_REVISION || headers['mcp-method'] !== 'tools/call') return false
    if (headers['mcp-name'] !== call.name || call.name.startsWith('=?base64?')) return false
    if (!this.#deps.isModernEnvelope(body, call.meta)) return false
    if (this.#deps.mayAsk(caller.principal, call.name) && envelopeCapabilities(call.meta) !== undefined) return false
    const made = this.#statelessCaller(req, caller, envelopeClientName(call.meta))
    if (declaresTasks(call.meta) && this.#deps.durationOf(made, call.name, call.args) !== 'short') return false
    const acceptsEvents = headers.accept?.includes('text/event-stream') === true
    const stateless = { calls: undefined, era: 'modern' as const, sessionId: undefined, revision: undefined }
    serve({ call, caller: made, ...stateless, acceptsEvents })
    return true
  }

  #serveSessionCall(
    req: RequestHead,
    res: ServerResponse | undefined,
    serve: ServeCall,
    caller: ResolvedCaller,
    call: PlainToolCall,
  ): boolean {
    const { accept } = req.headers
    const version = headerOf(req, 'mcp-protocol-version')
    const sessionId = headerOf(req, 'mcp-session-id')
    if (sessionId === undefined || !isLegacyCall(call)) return false
    if (version !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(version)) return false
    if (accept?.includes('application/json') !== true || !accept.includes('text/event-stream')) return false
    const session = this.#sessions.find(sessionId, caller.principal)
    const revision = session?.server.getNegotiatedProtocolVersion()
    if (session === undefined || revision === undefined) return false
    if (this.#deps.mayAsk(caller.principal, call.name) && isInterested(session)) return false
    const isShared = this.#sessions.isShared(session)
    if (isShared && res === undefined) return false
    const start = (): void => {
      useCaller(session, caller)
      const { calls } = session
      const era = 'legacy' as const
      const request = { call, caller: session.caller, calls, era, sessionId, revision, acceptsEvents: true }
      startUnderWay(session, call.id, (onSettled) => serve(request, onSettled))
    }
    if (isShared) unlessEnded(this.#sessions, session, this.#refusing(res!, call.id), start)
    else start()
    return true
  }

  #postToSession(req: IncomingMessage, res: ServerResponse, caller: ResolvedCaller, body: unknown): void {
    const id = isRecord(body) && isRequestId(body['id']) ? body['id'] : null
    const isInitialize = id !== null && isRecord(body) && body['method'] === 'initialize'
    const problem = isInitialize ? initializeProblem(body['params']) : undefined
    if (problem !== undefined) this.#refuse(res, 400, jsonRpcCodes.invalidParams, problem, id)
    else if (headerOf(req, 'mcp-session-id') === undefined && isInitializeRequest(body)) {
      const made = toolCaller(req, caller, body.params.clientInfo.name)
      const deps = { ...this.#deps, sessions: this.#sessions }
      this.#throughSdk(req, res, caller, (request) => openSession(deps, request, res, made, id, body))
    } else this.#withSession(req, res, caller, id, (session) => this.#postTo(session, req, res, caller, body, id))
  }

  #postTo(
    session: HttpSession,
    req: IncomingMessage,
    res: ServerResponse,
    caller: ResolvedCaller,
    body: unknown,
    id: RequestId | null,
  ): void {
    const cancelled = cancelledRequest(body)
    const pending = cancelled === undefined ? undefined : callUnderWay(session, cancelled)
    if (pending !== undefined) {
      pending.cancel()
      res.writeHead(202).end()
      return
    }
    this.#sessions.hold(session, res)
    const here = messageHere(this.#deps, session, res, body)
    if (here === undefined) return
    if (id !== null && here.body === body) cancelWhenClosed(session, res, id)
    this.#throughSdk(req, res, caller, (request) => session.transport.handleRequest(request, { parsedBody: here.body }))
  }

  #withSession(
    req: IncomingMessage,
    res: ServerResponse,
    caller: ResolvedCaller,
    id: RequestId | null,
    work: (session: HttpSession) => void,
  ): void {
    const sessionId = headerOf(req, 'mcp-session-id')
    if (sessionId === undefined) {
      const reason = 'Bad Request: Mcp-Session-Id header is required; initialize first'
      this.#refuse(res, 400, jsonRpcCodes.serverError, reason, id)
      return
    }
    const { principal } = caller
    const use = (session: HttpSession | undefined): void => {
      if (session === undefined) this.#refuse(res, 404, SESSION_NOT_FOUND, NO_SESSION, id)
      else {
        useCaller(session, caller)
        work(session)
      }
    }
    const open = this.#sessions.find(sessionId, principal)
    if (open !== undefined && this.#sessions.isShared(open))
      unlessEnded(this.#sessions, open, this.#refusing(res, id), () => use(open))
    else if (open !== undefined) use(open)
    else {
      const callerOf = (clientName: string) => toolCaller(req, caller, clientName)
      this.#sessions.restore(sessionId, principal, callerOf).then(use, (error: unknown) => {
        this.#deps.logger.warn('MCP session could not be restored', { cause: String(error) })
        use(undefined)
      })
    }
  }

  #getOrDelete(req: IncomingMessage, res: ServerResponse, caller: ResolvedCaller): void {
    this.#withSession(req, res, caller, null, (session) => {
      this.#sessions.hold(session, res, req.method === 'GET' ? 'stream' : 'request')
      this.#throughSdk(req, res, caller, async (request) => {
        const response = await session.transport.handleRequest(request)
        await session.forgotten
        return response
      })
    })
  }
}

const hasExposure = (caller: HttpCaller): caller is ResolvedCaller => caller.exposure !== undefined
const isJson = (type: string | undefined): boolean => type === 'application/json' || isJsonContentType(type)
