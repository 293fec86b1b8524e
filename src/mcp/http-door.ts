import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  classifyInboundRequest,
  createMcpHandler,
  isInitializeRequest,
  isJsonContentType,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Random } from '../kernel/random.ts'
import type { Exposure, ToolCaller } from '../tools/runtime/tool-host.ts'
import type { ConnectionCalls } from './call-desk.ts'
import {
  cancelledRequest,
  type EnvelopeCheck,
  envelopeClientName,
  isLegacyCall,
  isRecord,
  isRequestId,
  type PlainToolCall,
  plainToolCall,
} from './call-request.ts'
import { needsSafeNames } from './client-names.ts'
import type { ListKind } from './door-extension.ts'
import { exposureOfUrl } from './exposure.ts'
import { sendJson, serveHttpCall } from './http-call.ts'
import { createHttpSessions, type HttpSession, identityOf } from './http-sessions.ts'
import { announceChange, createProtocolServer, type ProtocolDeps } from './protocol-server.ts'
import { readBody, sendWebResponse, webRequestOf } from './web-bridge.ts'
import { jsonRpcCodes, MODERN_REVISION, type RequestId, type Wire } from './wire.ts'

/**
 * Streamable HTTP for both kinds of revision on one address. Authentication, Host and Origin are the caller's business.
 * 1. A plain tool call is answered here; every other request goes to the SDK through its web-standard face.
 * 2. A request is stateless if its body says so (the SDK's classification); otherwise it belongs to a session.
 */
export type HttpCaller = Readonly<{
  principal: Principal
  /** What the address asked to see; read from `?tools=` when absent. */
  exposure?: Exposure
  /** Decides the spelling of tool names; without it the client's name does. */
  safeNames?: boolean
}>

type ResolvedCaller = HttpCaller & Readonly<{ exposure: Exposure }>

export type HttpDoorDeps = ProtocolDeps &
  Readonly<{ wire: Wire; isModernEnvelope: EnvelopeCheck; clock: Clock; random: Random }>

export type HttpDoor = Readonly<{
  handle(req: IncomingMessage, res: ServerResponse, caller: HttpCaller): void
  announce(kind: ListKind): void
  sweep(): void
  close(): Promise<void>
}>

const SERVER_ERROR = -32000
const SESSION_NOT_FOUND = -32001
const RETRY_AFTER_SECONDS = '5'

export function createHttpDoor(deps: HttpDoorDeps): HttpDoor {
  const { wire, logger, desk } = deps
  const sessions = createHttpSessions(deps)
  const callers = new WeakMap<Request, ToolCaller>()
  const stateless = createMcpHandler(
    ({ requestInfo }) => {
      const caller = callers.get(requestInfo!)!
      return createProtocolServer(deps, { calls: callsOf(caller.principal), caller: () => caller })
    },
    {
      legacy: 'reject',
      maxRequestBodySize: limits.messageBytesMax,
      onerror: (error) => logger.debug('MCP request reported an error', { error: error.message }),
    },
  )
  /** Stateless calls under way, by who makes them: there is no connection to count them on. */
  const callsByIdentity = new Map<string, ConnectionCalls>()

  function callsOf(principal: Principal): ConnectionCalls {
    const identity = identityOf(principal)
    let calls = callsByIdentity.get(identity)
    if (calls === undefined) {
      calls = { inFlight: 0 }
      callsByIdentity.set(identity, calls)
    }
    return calls
  }
  function forgetIdle(principal: Principal): void {
    const identity = identityOf(principal)
    if (callsByIdentity.get(identity)?.inFlight === 0) callsByIdentity.delete(identity)
  }

  function refuse(res: ServerResponse, status: number, code: number, message: string, id: RequestId | null = null): void {
    if (status === 503) res.setHeader('retry-after', RETRY_AFTER_SECONDS)
    if (status === 405) res.setHeader('allow', 'GET, POST, DELETE')
    if (status === 413) res.setHeader('connection', 'close')
    sendJson(res, status, wire.errorResponse(id, code, message))
  }

  function throughSdk(req: IncomingMessage, res: ServerResponse, serve: (request: Request) => Promise<Response>): void {
    Promise.resolve()
      .then(() => serve(webRequestOf(req, res)))
      .then((response) => sendWebResponse(response, res))
      .catch((error: unknown) => {
        logger.debug('MCP request ended early', { error: String(error) })
        if (!res.headersSent) refuse(res, 400, jsonRpcCodes.invalidRequest, 'Bad Request: the request could not be served')
        else res.destroy()
      })
  }

  function post(req: IncomingMessage, res: ServerResponse, caller: ResolvedCaller, text: string): void {
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      refuse(res, 400, jsonRpcCodes.parseError, 'Parse error: the request body is not valid JSON')
      return
    }
    const call = plainToolCall(body)
    if (call !== undefined && !deps.extensionToolNames.has(call.name)) {
      if (serveStatelessCall(req, res, caller, body, call) || serveSessionCall(req, res, caller, call)) return
    }
    const version = headerOf(req, 'mcp-protocol-version')
    const method = headerOf(req, 'mcp-method')
    const route = classifyInboundRequest({
      httpMethod: 'POST',
      body,
      ...(version === undefined ? {} : { protocolVersionHeader: version }),
      ...(method === undefined ? {} : { mcpMethodHeader: method }),
    })
    if (route.kind === 'legacy') {
      postToSession(req, res, caller, body)
      return
    }
    throughSdk(req, res, (request) => {
      callers.set(request, toolCaller(caller, envelopeClientName(metaOf(body))))
      return stateless.fetch(request, { parsedBody: body })
    })
  }

  function serveStatelessCall(
    req: IncomingMessage,
    res: ServerResponse,
    caller: ResolvedCaller,
    body: unknown,
    call: PlainToolCall,
  ): boolean {
    const { headers } = req
    if (headers['mcp-protocol-version'] !== MODERN_REVISION || headers['mcp-method'] !== 'tools/call') return false
    if (headers['mcp-name'] !== call.name || call.name.startsWith('=?base64?')) return false
    if (!deps.isModernEnvelope(body, call.meta)) return false
    const { principal } = caller
    serveHttpCall(
      deps,
      res,
      {
        call,
        caller: toolCaller(caller, envelopeClientName(call.meta)),
        calls: callsOf(principal),
        era: 'modern',
        sessionId: undefined,
        acceptsEvents: headers.accept?.includes('text/event-stream') === true,
      },
      () => forgetIdle(principal),
    )
    return true
  }

  function serveSessionCall(req: IncomingMessage, res: ServerResponse, caller: ResolvedCaller, call: PlainToolCall): boolean {
    const { accept } = req.headers
    const version = headerOf(req, 'mcp-protocol-version')
    const sessionId = headerOf(req, 'mcp-session-id')
    if (sessionId === undefined || !isLegacyCall(call)) return false
    if (version !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(version)) return false
    if (accept?.includes('application/json') !== true || !accept.includes('text/event-stream')) return false
    const session = sessions.find(sessionId, caller.principal)
    if (session === undefined || session.server.getNegotiatedProtocolVersion() === undefined) return false
    useCaller(session, caller)
    const started = serveHttpCall(
      deps,
      res,
      { call, caller: session.caller, calls: session.calls, era: 'legacy', sessionId, acceptsEvents: true },
      () => session.callsById.delete(call.id),
    )
    if (started !== undefined) session.callsById.set(call.id, started)
    return true
  }

  function postToSession(req: IncomingMessage, res: ServerResponse, caller: ResolvedCaller, body: unknown): void {
    const sessionId = headerOf(req, 'mcp-session-id')
    if (sessionId === undefined && isInitializeRequest(body)) {
      openSession(req, res, caller, body)
      return
    }
    const session = sessionOr404(req, res, caller, isRecord(body) && isRequestId(body['id']) ? body['id'] : null)
    if (session === undefined) return
    const cancelled = cancelledRequest(body)
    const pending = cancelled === undefined ? undefined : session.callsById.get(cancelled.requestId)
    if (pending !== undefined) {
      pending.cancel(cancelled?.reason)
      res.writeHead(202).end()
      return
    }
    throughSdk(req, res, (request) => session.transport.handleRequest(request, { parsedBody: body }))
  }

  function openSession(
    req: IncomingMessage,
    res: ServerResponse,
    caller: ResolvedCaller,
    body: { params: { clientInfo: { name: string } } },
  ): void {
    throughSdk(req, res, async (request) => {
      const session = await sessions.open(toolCaller(caller, body.params.clientInfo.name))
      if (session === undefined) {
        const text = wire.errorResponse(null, SERVER_ERROR, 'Too many sessions. Try again later, or end one with DELETE.')
        return new Response(text, {
          status: 503,
          headers: { 'content-type': 'application/json', 'retry-after': RETRY_AFTER_SECONDS },
        })
      }
      const response = await session.transport.handleRequest(request, { parsedBody: body })
      if (!response.ok) sessions.end(session)
      return response
    })
  }

  function sessionOr404(
    req: IncomingMessage,
    res: ServerResponse,
    caller: ResolvedCaller,
    id: RequestId | null,
  ): HttpSession | undefined {
    const sessionId = headerOf(req, 'mcp-session-id')
    if (sessionId === undefined) {
      refuse(res, 400, SERVER_ERROR, 'Bad Request: Mcp-Session-Id header is required; initialize first', id)
      return undefined
    }
    const session = sessions.find(sessionId, caller.principal)
    if (session === undefined) refuse(res, 404, SESSION_NOT_FOUND, 'Session not found; initialize again', id)
    else useCaller(session, caller)
    return session
  }

  function useCaller(session: HttpSession, { principal }: ResolvedCaller): void {
    if (session.caller.principal !== principal) session.caller = { ...session.caller, principal }
  }

  function getOrDelete(req: IncomingMessage, res: ServerResponse, caller: ResolvedCaller): void {
    const session = sessionOr404(req, res, caller, null)
    if (session === undefined) return
    if (req.method === 'GET') {
      session.streams++
      res.once('close', () => {
        session.streams--
        session.lastUsedMs = deps.clock.monotonicMs()
      })
    }
    throughSdk(req, res, (request) => session.transport.handleRequest(request))
  }

  return {
    handle(req, res, given) {
      let caller: ResolvedCaller
      try {
        caller = { ...given, exposure: given.exposure ?? exposureOfUrl(req.url) }
      } catch (error) {
        refuse(res, 400, jsonRpcCodes.invalidRequest, `Bad Request: ${error instanceof Error ? error.message : 'tools'}`)
        return
      }
      if (desk.closing) refuse(res, 503, SERVER_ERROR, 'The server is shutting down. Connect again after the restart.')
      else if (req.method === 'GET' || req.method === 'DELETE') getOrDelete(req, res, caller)
      else if (req.method !== 'POST') refuse(res, 405, SERVER_ERROR, 'Method not allowed.')
      else if (!isJsonContentType(req.headers['content-type'])) {
        refuse(res, 415, SERVER_ERROR, 'Unsupported Media Type: Content-Type must be application/json')
      } else {
        readBody(req, limits.messageBytesMax, (text) => {
          if (text !== undefined) post(req, res, caller, text)
          else refuse(res, 413, SERVER_ERROR, `Payload Too Large: a message must not exceed ${limits.messageBytesMax} bytes`)
        })
      }
    },
    announce(kind) {
      for (const session of sessions.all()) announceChange(session.server, kind)
      if (kind === 'tools') stateless.notify.toolsChanged()
      else if (kind === 'prompts') stateless.notify.promptsChanged()
      else stateless.notify.resourcesChanged()
    },
    sweep: sessions.sweep,
    async close() {
      await stateless.close()
      await sessions.close()
    },
  }
}

function toolCaller(caller: ResolvedCaller, clientName: string | undefined): ToolCaller {
  return {
    principal: caller.principal,
    door: 'http',
    exposure: caller.exposure,
    safeNames: caller.safeNames ?? needsSafeNames(clientName),
  }
}

function metaOf(body: unknown): Record<string, unknown> | undefined {
  const params = isRecord(body) ? body['params'] : undefined
  return isRecord(params) && isRecord(params['_meta']) ? params['_meta'] : undefined
}

function headerOf(req: IncomingMessage, name: string): string | undefined {
  const value = req.headers[name]
  return typeof value === 'string' ? value : undefined
}
