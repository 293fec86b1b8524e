import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import type { GatewayDirectory } from '../contract/gateway-directory.ts'
import { limits } from '../contract/limits.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { createServer } from '../kernel/node-http.ts'
import { type Random, systemRandom } from '../kernel/random.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import type { InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import type { Exposure, ToolHost } from '../tools/runtime/tool-host.ts'
import { type Authenticate, type Authenticator, createAuthenticate, isOurCredential } from './authenticate.ts'
import { trackConnections } from './connections.ts'
import { allowOrigin, answerOptions } from './cors.ts'
import type { Answer } from './exchange/answer.ts'
import type { Reply } from './exchange/reply.ts'
import type { RequestHead } from './exchange/request-head.ts'
import { createGatewayOfUrl, GATEWAY_PREFIX, throughGateway } from './gateway-address.ts'
import { createRequestCheck } from './host-check.ts'
import { createOauthRoutes } from './oauth-routes.ts'
import { type AuthorizationGate, createAuthorizationPages, createAuthorizeForm } from './pages/authorization-page.ts'
import { createInstallPage } from './pages/install-page.ts'
import { createPeoplePages } from './pages/people-pages.ts'
import { sendRefusal } from './pages/refusal-page.ts'
import { createSecretLinkRoutes, type SecretLinkGate } from './pages/secret-link-page.ts'
import { isLoopbackHost, markRelayed, type RelayedPeer, relayExposure, relayRequiresKeys } from './peer-address.ts'
import type { PeopleGate } from './people-gate.ts'
import { type PlainReply, servePlainRequests } from './plain-connections.ts'
import type { PlainHead } from './plain-request.ts'
import { requireBodyLength } from './read-json-body.ts'
import { createRequestClients, type RequestClients } from './request-client.ts'
import { createViewOfUrl, type RequestView } from './request-view.ts'
import { createRestRoutes, type RunFeed } from './rest-routes.ts'
import type { PatternRoute } from './route-table.ts'
import { createRoutes, type HealthFacts, type ModelProviders } from './routes.ts'
import { createSealRoutes, type SealGate } from './seal-routes.ts'
import { sendError } from './send.ts'
import { createServeCall, type ServeCall, shuttingDown } from './serve-call.ts'
import { startListening } from './start-listening.ts'
import type { HttpError } from './to-http-error.ts'
import { createToolRoutes } from './tool-routes.ts'

/**
 * The HTTP transport. For every request, in this order: Host and Origin, size, authentication, route. `/mcp` goes straight to the
 * MCP transport, which reads and answers the request itself.
 */
export type HttpTransportDeps = Readonly<{
  mcp: McpHandler
  host: ToolHost
  /** Shared with the MCP transport: a caller is counted once, and all calls end together. */
  inFlight: InFlightCalls
  catalog: Catalog
  identity(): Promise<Authenticator | undefined>
  seal(): Promise<SealGate | undefined>
  runs(): Promise<RunFeed | undefined>
  secretLinks(): Promise<SecretLinkGate | undefined>
  authorizations(): Promise<AuthorizationGate | undefined>
  people(): Promise<PeopleGate | undefined>
  gateways(): Promise<Pick<GatewayDirectory, 'find'> | undefined>
  models?: ModelAddresses | undefined
  health(): Promise<HealthFacts>
  /** The meaning of `?tools=`; the MCP transport has the same rule for its own address. */
  exposureOfUrl(url: string): Exposure
  /** The exposure of callers that do not choose. */
  exposureDefault: Exposure
  allowedHosts: readonly string[]
  allowedOrigins: readonly string[]
  /** Addresses and networks of proxies whose forwarding headers are trusted. */
  trustedProxies: readonly string[]
  /** The address under which clients know this server, if it is not the one they connect to. */
  publicUrl?: string | undefined
  /** Nobody is the local owner: for a port that other machines can reach. */
  requireKeys: boolean
  bodyBytesMax: number
  version: string
  logger: Logger
  clock: Clock
  random?: Random
}>

/** Addresses of model providers, served by a separate transport with its own bounds. */
export type ModelAddresses = Readonly<{
  isAddress(url: string): boolean
  /** The first parts of their addresses. */
  providers: ModelProviders
  open(parts: ModelAddressParts): Promise<ModelHandler>
}>
export type ModelHandler = Readonly<{
  handle(req: IncomingMessage, res: ServerResponse, url: string): void
  /** A request that was read whole. */
  handleWhole(head: RequestHead, body: Buffer, answer: Answer, url: string): void
}>
type ModelAddressParts = Readonly<{
  authenticate: Authenticate
  /** Called with the principal of a connection; throws if it has too many. */
  claim(socket: Socket, principal: Principal): void
  addressOf(req: RequestHead): string
  isOurs(credential: string): boolean
  sendError(req: RequestHead, res: Answer, error: HttpError): void
}>

type McpCaller = UrlView & Readonly<{ principal: Principal }>

type McpHandler = Readonly<{
  handleHttp(req: IncomingMessage, res: ServerResponse, caller: McpCaller): void
  /** Serves a plain call, or returns false and has done nothing. */
  servePlain(head: RequestHead, body: string, caller: McpCaller, reply: Reply): boolean
}>

type HttpListener = Readonly<{ url: string; port: number; close(graceMs: number): Promise<void> }>

export type HttpTransport = Readonly<{
  handle(req: IncomingMessage, res: ServerResponse): void
  /** Refuses a non-loopback host unless keys are required. */
  listen(address: Readonly<{ host: string; port: number }>): Promise<HttpListener>
  /** Serves a connection that was accepted elsewhere, of which no HTTP was read yet. */
  accept(socket: Socket, peer: RelayedPeer): void
  /**
   * Accepts no more requests, and finishes or fails those in progress. Streams of the MCP transport end when that is closed, so
   * close both at the same time.
   */
  close(graceMs: number): Promise<void>
  server: Server
}>

type UrlView = RequestView & Readonly<{ origin?: string }>

const MCP_PATH = '/mcp'
const MODEL_METHODS = ['GET', 'POST', 'OPTIONS']
const MCP_METHODS = ['GET', 'POST', 'DELETE', 'OPTIONS']

type PatternDeps = HttpTransportDeps &
  Readonly<{ serveCall: ServeCall; authenticate: Authenticate; clients: RequestClients; random: Random }>

/** All routes with methods and patterns. */
export function createPatternRoutes(deps: PatternDeps): readonly PatternRoute[] {
  const { originOf } = deps.clients
  return [
    ...createSealRoutes(deps),
    ...createRestRoutes(deps),
    ...createSecretLinkRoutes(deps),
    ...createAuthorizationPages({ ...deps, originOf }),
    ...createAuthorizeForm({ ...deps, originOf }),
    ...createInstallPage({ ...deps, originOf }),
    ...createOauthRoutes(deps),
    ...createPeoplePages(deps),
  ]
}

export function createHttpTransport(input: HttpTransportDeps): HttpTransport {
  const deps = { ...input, random: input.random ?? systemRandom }
  const { mcp, requireKeys, bodyBytesMax } = deps
  const server = createServer(serverOptions, handle)
  const connections = trackConnections(server)
  const requestCheck = createRequestCheck(deps)
  const clients = createRequestClients(deps)
  const authenticate = createAuthenticate({ ...deps, clients, claim: connections.claim })
  const viewOfUrl = createViewOfUrl(deps)
  const serveCall = createServeCall(deps)
  const tools = createToolRoutes({ ...deps, serveCall })
  const patterns = createPatternRoutes({ ...deps, serveCall, authenticate, clients })
  const routes = createRoutes({
    ...{ ...deps, tools, patterns, authenticate, viewOfUrl, clients },
    providers: deps.models?.providers,
  })
  const plainView = viewOfUrl('/mcp')
  const ownerOfPlainUrl = { principal: localOwner, ...plainView }
  const isKnownElsewhere = deps.publicUrl !== undefined
  const plainConnections = servePlainRequests({ ...deps, server, connections, serve: servePlain })
  let tracksAccepted = false
  const gatewayOfUrl = createGatewayOfUrl()
  const gatewayCallers = new WeakMap<Principal, McpCaller>()
  let gateways: Awaited<ReturnType<HttpTransportDeps['gateways']>>
  let openedModels: ReturnType<ModelAddresses['open']> | undefined
  let modelProxy: ModelHandler | undefined

  function handle(req: IncomingMessage, res: ServerResponse): void {
    connections.track(res)
    plainConnections.follow(req, res)
    try {
      const origin = requestCheck.check(req, requireKeys || relayRequiresKeys(req.socket))
      if (origin !== undefined) allowOrigin(res, origin)
      if (connections.isClosing()) throw shuttingDown()
      const { url = '/' } = req
      if (deps.models?.isAddress(url)) {
        handleModels(req, res, url, deps.models)
        return
      }
      requireBodyLength(req, bodyBytesMax)
      if (url === '/mcp' || url.startsWith('/mcp?')) handleMcp(req, res, url)
      else if (url.startsWith(GATEWAY_PREFIX)) handleGateway(req, res, url)
      else routes.handle(req, res, url)
    } catch (error) {
      refuse(req, res, error)
    }
  }

  /** The same order as in `handle`. Refusals and all other requests are left to `handle`. */
  function servePlain(head: PlainHead, body: Buffer, reply: PlainReply): boolean | Promise<boolean> {
    const { url, socket, bodyBytes } = head
    if (connections.isClosing() || bodyBytes > bodyBytesMax) return false
    if (!url.startsWith(MCP_PATH)) return servePlainModel(head, body, reply)
    let caller: McpCaller
    try {
      requestCheck.check(head, requireKeys || relayRequiresKeys(socket))
      const principal = url.startsWith(GATEWAY_PREFIX) ? openGateway(head, url) : authenticate(head)
      if (principal instanceof Promise) return servePlainLater(head, body, reply, principal)
      caller = callerAt(head, url, principal)
    } catch {
      return false
    }
    return mcp.servePlain(head, body.toString('utf8'), caller, reply)
  }

  function servePlainModel(head: PlainHead, body: Buffer, reply: PlainReply): boolean {
    const { url, socket } = head
    if (modelProxy === undefined || !deps.models?.isAddress(url)) return false
    try {
      requestCheck.check(head, requireKeys || relayRequiresKeys(socket))
    } catch {
      return false
    }
    modelProxy.handleWhole(head, body, reply.open(), url)
    return true
  }

  async function servePlainLater(
    head: PlainHead,
    body: Buffer,
    reply: Reply,
    asking: Promise<Principal>,
  ): Promise<boolean> {
    const caller = await asking.then((principal) => callerAt(head, head.url, principal)).catch(() => undefined)
    if (caller === undefined || reply.isDisconnected()) return false
    return mcp.servePlain(head, body.toString('utf8'), caller, reply)
  }

  function handleModels(req: IncomingMessage, res: ServerResponse, url: string, models: ModelAddresses): void {
    if (req.method === 'OPTIONS') {
      answerOptions(req, res, MODEL_METHODS)
      return
    }
    if (modelProxy !== undefined) {
      modelProxy.handle(req, res, url)
      return
    }
    openedModels ??= models.open({
      ...{ authenticate, claim: connections.claim, addressOf: clients.addressOf },
      ...{ isOurs: isOurCredential, sendError },
    })
    openedModels
      .then((opened) => {
        modelProxy = opened
        opened.handle(req, res, url)
      })
      .catch((error: unknown) => refuse(req, res, error))
  }

  function handleMcp(req: IncomingMessage, res: ServerResponse, url: string): void {
    if (req.method === 'OPTIONS') {
      answerOptions(req, res, MCP_METHODS)
      return
    }
    const principal = authenticate(req)
    if (principal instanceof Promise) {
      principal
        .then((known) => mcp.handleHttp(req, res, callerAt(req, url, known)))
        .catch((error: unknown) => refuse(req, res, error))
      return
    }
    mcp.handleHttp(req, res, callerAt(req, url, principal))
  }

  function callerAt(req: RequestHead, url: string, principal: Principal): McpCaller {
    const view = requestView(req, url)
    if (url.startsWith(GATEWAY_PREFIX)) return gatewayCaller(view, principal)
    return principal === localOwner && view === plainView ? ownerOfPlainUrl : { ...view, principal }
  }

  function handleGateway(req: IncomingMessage, res: ServerResponse, url: string): void {
    if (req.method === 'OPTIONS') {
      answerOptions(req, res, MCP_METHODS)
      return
    }
    const principal = openGateway(req, url)
    if (!(principal instanceof Promise)) {
      mcp.handleHttp(req, res, callerAt(req, url, principal))
      return
    }
    principal
      .then((known) => mcp.handleHttp(req, res, callerAt(req, url, known)))
      .catch((error: unknown) => refuse(req, res, error))
  }

  /** Who asks comes first: what is there is told only to those with whom it is shared. At once if all of it is known. */
  function openGateway(req: RequestHead, url: string): Principal | Promise<Principal> {
    const principal = authenticate(req)
    if (principal instanceof Promise || gateways === undefined) return openGatewayLater(principal, url)
    const id = gateways.find(principal, gatewayOfUrl(url))
    return id instanceof Promise ? id.then((found) => throughGateway(principal, found)) : throughGateway(principal, id)
  }

  async function openGatewayLater(asking: Principal | Promise<Principal>, url: string): Promise<Principal> {
    const principal = await asking
    const gateway = gatewayOfUrl(url)
    gateways ??= await deps.gateways()
    return throughGateway(principal, await gateways?.find(principal, gateway))
  }

  /** One object for all calls of a principal that ask nothing special. */
  function gatewayCaller(view: UrlView, principal: Principal): McpCaller {
    if (view !== plainView) return { ...view, exposure: 'full', principal }
    let caller = gatewayCallers.get(principal)
    if (caller === undefined) {
      caller = { ...view, exposure: 'full', principal }
      gatewayCallers.set(principal, caller)
    }
    return caller
  }

  /** One object for all equal requests over plain HTTP. */
  function requestView(req: RequestHead, url: string): UrlView {
    const view = viewOfUrl(url, relayExposure(req.socket))
    return isKnownElsewhere || clients.isSecure(req) ? { ...view, origin: clients.originOf(req) } : view
  }

  function refuse(req: IncomingMessage, res: ServerResponse, error: unknown): void {
    if (connections.isClosing()) res.shouldKeepAlive = false
    sendRefusal(req, res, error, deps)
  }

  function close(graceMs: number): Promise<void> {
    const closed = connections.close(graceMs, deps.inFlight.interruptAll)
    void deps.inFlight.drain(graceMs)
    return closed
  }

  return {
    handle,
    server,
    close,
    async listen({ host, port }) {
      if (!requireKeys && !isLoopbackHost(host)) throw keysNeeded(host)
      await startListening(server, host, port)
      const bound = server.address() as AddressInfo
      if (!requireKeys && !isLoopbackHost(bound.address)) {
        await close(0)
        throw keysNeeded(host)
      }
      server.on('error', (error) => deps.logger.error('the HTTP server reported an error', { error: error.message }))
      const displayed = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
      return { url: `http://${displayed}:${bound.port}`, port: bound.port, close }
    },
    accept(socket, peer) {
      // The event starts the check for slow clients, which a server that never listens would not have.
      if (!tracksAccepted && !server.listening) server.emit('listening')
      tracksAccepted = true
      markRelayed(socket, peer)
      socket.setNoDelay(true)
      server.emit('connection', socket)
      socket.resume()
    },
  }
}

/** Bounds for a client that sends slowly, much, or nothing at all. */
const serverOptions = {
  maxHeaderSize: limits.httpHeaderBytesMax,
  headersTimeout: limits.httpHeadersTimeoutMs,
  requestTimeout: limits.httpRequestTimeoutMs,
  connectionsCheckingInterval: limits.httpTimeoutCheckMs,
  keepAliveTimeout: limits.httpKeepAliveMs,
  requireHostHeader: true,
  insecureHTTPParser: false,
} as const

const keysNeeded = (host: string): AppError =>
  new AppError(
    'ERR_CONFIG_INVALID',
    `host: ${host} can be reached from other machines, which requires API keys. Create one with castellan keys create, or listen on 127.0.0.1.`,
    { field: 'host' },
  )
