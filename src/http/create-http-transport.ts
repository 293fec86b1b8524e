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
import { createRequestCheck } from './host-check.ts'
import { createOauthRoutes } from './oauth-routes.ts'
import { type AuthorizationGate, createAuthorizationPages, createAuthorizeForm } from './pages/authorization-page.ts'
import { createPeoplePages } from './pages/people-pages.ts'
import { createSecretLinkRoutes, type SecretLinkGate } from './pages/secret-link-page.ts'
import { isLoopbackHost, markRelayed, type RelayedPeer, relayExposure, relayRequiresKeys } from './peer-address.ts'
import type { PeopleGate } from './people-gate.ts'
import { requireBodyLength } from './read-json-body.ts'
import { createRequestClients } from './request-client.ts'
import { createViewOfUrl, type RequestView } from './request-view.ts'
import { createRestRoutes, type RunFeed } from './rest-routes.ts'
import { createRoutes, type HealthFacts } from './routes.ts'
import { createSealRoutes, type SealGate } from './seal-routes.ts'
import { sendError } from './send.ts'
import { createServeCall, shuttingDown } from './serve-call.ts'
import { type HttpError, toHttpError } from './to-http-error.ts'
import { createToolRoutes } from './tool-routes.ts'

/**
 * The HTTP transport. For every request, in this order: Host and Origin, size, then who asks, then the route.
 * `/mcp` goes straight through to the MCP transport, which reads and answers the request itself.
 */
export type HttpTransportDeps = Readonly<{
  mcp: McpHandler
  host: ToolHost
  /** The same as that of the MCP transport: a caller is counted once, and all calls end together. */
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
  /** What `?tools=` means; the MCP transport has the same rule for its own address. */
  exposureOfUrl(url: string): Exposure
  /** What callers see that do not choose. */
  exposureDefault: Exposure
  allowedHosts: readonly string[]
  allowedOrigins: readonly string[]
  /** Addresses and networks of proxies whose word about their clients counts. */
  trustedProxies: readonly string[]
  /** The address under which clients know this server, where that is not the one they connect to. */
  publicUrl?: string | undefined
  /** Nobody is the local owner: for a port that others than this machine can reach. */
  requireKeys: boolean
  bodyBytesMax: number
  version: string
  logger: Logger
  clock: Clock
  random?: Random
}>

/** Addresses of model providers, which are served by a transport of their own with bounds of its own. */
export type ModelAddresses = Readonly<{
  isAddress(url: string): boolean
  open(
    parts: ModelAddressParts,
  ): Promise<Readonly<{ handle(req: IncomingMessage, res: ServerResponse, url: string): void }>>
}>
export type ModelAddressParts = Readonly<{
  authenticate: Authenticate
  /** Told whose a connection is, by who finds that out; throws when those are too many. */
  claim(socket: Socket, principal: Principal): void
  addressOf(req: IncomingMessage): string
  isOurs(credential: string): boolean
  sendError(req: IncomingMessage, res: ServerResponse, error: HttpError): void
}>

export type McpHandler = Readonly<{
  handleHttp(
    req: IncomingMessage,
    res: ServerResponse,
    caller: RequestView & Readonly<{ principal: Principal; origin?: string }>,
  ): void
}>

export type HttpListener = Readonly<{ url: string; port: number; close(graceMs: number): Promise<void> }>

export type HttpTransport = Readonly<{
  handle(req: IncomingMessage, res: ServerResponse): void
  /** Refuses a host that is not loopback unless keys are demanded. */
  listen(address: Readonly<{ host: string; port: number }>): Promise<HttpListener>
  /** Serves a connection that was accepted elsewhere, and of which nothing was read as HTTP yet. */
  accept(socket: Socket, peer: RelayedPeer): void
  /**
   * Takes no more requests, and finishes or fails those under way. Streams of the MCP transport end when that is closed, so
   * close both at the same time.
   */
  close(graceMs: number): Promise<void>
  server: Server
}>

const GATEWAY_PREFIX = '/mcp/'
const MODEL_METHODS = ['GET', 'POST', 'OPTIONS']
const MCP_METHODS = ['GET', 'POST', 'DELETE', 'OPTIONS']

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
  const patterns = [
    ...createSealRoutes({ ...deps, serveCall, authenticate }),
    ...createRestRoutes({ ...deps, serveCall, authenticate }),
    ...createSecretLinkRoutes(deps),
    ...createAuthorizationPages({ ...deps, authenticate, originOf: clients.originOf }),
    ...createAuthorizeForm({ ...deps, authenticate, originOf: clients.originOf }),
    ...createOauthRoutes({ ...deps, clients }),
    ...createPeoplePages({ ...deps, clients }),
  ]
  const routes = createRoutes({ ...deps, tools, patterns, authenticate, viewOfUrl, clients })
  const plainView = viewOfUrl('/mcp')
  const ownerOfPlainUrl = { principal: localOwner, ...plainView }
  const isKnownElsewhere = deps.publicUrl !== undefined
  let tracksAccepted = false
  let openedModels: ReturnType<ModelAddresses['open']> | undefined
  let modelProxy: Awaited<ReturnType<ModelAddresses['open']>> | undefined

  function handle(req: IncomingMessage, res: ServerResponse): void {
    connections.track(res)
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
        .then((known) => mcp.handleHttp(req, res, { ...asked(req, url), principal: known }))
        .catch((error: unknown) => refuse(req, res, error))
      return
    }
    const view = asked(req, url)
    if (principal === localOwner && view === plainView) mcp.handleHttp(req, res, ownerOfPlainUrl)
    else mcp.handleHttp(req, res, { ...view, principal })
  }

  function handleGateway(req: IncomingMessage, res: ServerResponse, url: string): void {
    if (req.method === 'OPTIONS') {
      answerOptions(req, res, MCP_METHODS)
      return
    }
    openGateway(req, url)
      .then((principal) => mcp.handleHttp(req, res, { ...asked(req, url), exposure: 'full', principal }))
      .catch((error: unknown) => refuse(req, res, error))
  }

  /** Who asks comes first: what is there is told only to those with whom it is shared. */
  async function openGateway(req: IncomingMessage, url: string): Promise<Principal> {
    const principal = await authenticate(req)
    requireNoChoice(url)
    const id = await (await deps.gateways())?.find(principal, gatewayOf(url))
    if (id === undefined) {
      throw new AppError(
        'ERR_ROUTE_NOT_FOUND',
        'There is no gateway and no agent at this address that you may use. list_mcp_gateways lists gateways.',
      )
    }
    return throughGateway(principal, id)
  }

  /** One object for all who ask the same over plain HTTP. */
  function asked(req: IncomingMessage, url: string): RequestView & Readonly<{ origin?: string }> {
    const view = viewOfUrl(url, relayExposure(req.socket))
    return isKnownElsewhere || clients.isSecure(req) ? { ...view, origin: clients.originOf(req) } : view
  }

  function refuse(req: IncomingMessage, res: ServerResponse, error: unknown): void {
    if (connections.isClosing()) res.shouldKeepAlive = false
    sendError(req, res, toHttpError(error, deps))
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
      // The event starts the watch for slow clients, which a server that never listens itself would not have.
      if (!tracksAccepted && !server.listening) server.emit('listening')
      tracksAccepted = true
      markRelayed(socket, peer)
      socket.setNoDelay(true)
      server.emit('connection', socket)
      socket.resume()
    },
  }
}

/** The part of the address after `/mcp/`. */
function gatewayOf(url: string): string {
  const path = url.split('?', 1)[0]!.slice(GATEWAY_PREFIX.length).replace(/\/$/, '')
  try {
    return decodeURIComponent(path).slice(0, limits.profileNameCharsMax)
  } catch {
    throw new AppError('ERR_INVALID_INPUT', 'The address is not percent-encoded correctly.', { field: 'address' })
  }
}

function requireNoChoice(url: string): void {
  const query = url.indexOf('?')
  const parameters = new URLSearchParams(query === -1 ? '' : url.slice(query + 1))
  const field = ['tools', 'mode'].find((name) => parameters.has(name))
  if (field === undefined) return
  throw new AppError(
    'ERR_INVALID_INPUT',
    `${field}: a gateway decides itself which tools it lists; leave it out, or use edit_mcp_gateway`,
    { field },
  )
}

const BOUND_MAX = 256
const boundPrincipals = new WeakMap<Principal, Map<string, Principal>>()

/** One object for each principal and gateway: what is remembered of a principal is remembered by the object. */
function throughGateway(principal: Principal, gateway: string): Principal {
  const known = boundPrincipals.get(principal) ?? new Map<string, Principal>()
  boundPrincipals.set(principal, known)
  const bound = known.get(gateway) ?? { ...principal, gateway }
  if (known.size >= BOUND_MAX) known.clear()
  known.set(gateway, bound)
  return bound
}

/** What bounds a client that sends slowly, much, or nothing at all. */
const serverOptions = {
  maxHeaderSize: limits.httpHeaderBytesMax,
  headersTimeout: limits.httpHeadersTimeoutMs,
  requestTimeout: limits.httpRequestTimeoutMs,
  connectionsCheckingInterval: limits.httpTimeoutCheckMs,
  keepAliveTimeout: limits.httpKeepAliveMs,
  requireHostHeader: true,
  insecureHTTPParser: false,
} as const

function startListening(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void => {
      const reason =
        error.code === 'EADDRINUSE'
          ? 'another program uses this port; choose another with --port'
          : error.code === 'EACCES'
            ? 'this user may not use this port; choose one above 1023 with --port'
            : `the system says ${error.code ?? error.message}`
      reject(
        new AppError(
          'ERR_INIT_FAILED',
          `Cannot listen on ${host}:${port}: ${reason}.`,
          { host, port },
          { cause: error },
        ),
      )
    }
    server.once('error', onError)
    server.listen(port, host, () => {
      server.off('error', onError)
      resolve()
    })
  })
}

const keysNeeded = (host: string): AppError =>
  new AppError(
    'ERR_CONFIG_INVALID',
    `host: ${host} can be reached from other machines, which requires API keys. Create one with castellan keys create, or listen on 127.0.0.1.`,
    { field: 'host' },
  )
