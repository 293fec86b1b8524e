import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { createServer } from '../kernel/node-http.ts'
import { type Random, systemRandom } from '../kernel/random.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import type { Exposure, ToolHost } from '../tools/runtime/tool-host.ts'
import { type Authenticator, createAuthenticate } from './authenticate.ts'
import { createCallsUnderWay } from './calls-under-way.ts'
import { trackConnections } from './connections.ts'
import { allowOrigin, answerOptions } from './cors.ts'
import { createRequestCheck } from './host-check.ts'
import { isLoopbackHost, markRelayed, type RelayedPeer, relayExposure, relayRequiresKeys } from './peer-address.ts'
import { requireBodyLength } from './read-json-body.ts'
import { createViewOfUrl, type RequestView } from './request-view.ts'
import { createRestRoutes, type RunFeed } from './rest-routes.ts'
import { createRoutes, type HealthFacts } from './routes.ts'
import { createSealRoutes, type SealGate } from './seal-routes.ts'
import { sendError } from './send.ts'
import { toHttpError } from './to-http-error.ts'
import { createToolRoutes } from './tool-routes.ts'

/**
 * The HTTP door. For every request, in this order: Host and Origin, size, then who asks, then the route.
 * `/mcp` goes straight through to the MCP door, which reads and answers the request itself.
 */
export type HttpDoorDeps = Readonly<{
  mcp: McpHandler
  host: ToolHost
  catalog: Catalog
  identity(): Promise<Authenticator | undefined>
  seal(): Promise<SealGate | undefined>
  runs(): Promise<RunFeed | undefined>
  health(): Promise<HealthFacts>
  /** What `?tools=` means; the MCP door has the same rule for its own address. */
  exposureOfUrl(url: string): Exposure
  /** What callers see that do not choose. */
  exposureDefault: Exposure
  allowedHosts: readonly string[]
  allowedOrigins: readonly string[]
  /** Nobody is the local owner: for a port that others than this machine can reach. */
  requireKeys: boolean
  bodyBytesMax: number
  version: string
  logger: Logger
  clock: Clock
  random?: Random
}>

export type McpHandler = Readonly<{
  handleHttp(req: IncomingMessage, res: ServerResponse, caller: RequestView & Readonly<{ principal: Principal }>): void
}>

export type HttpListener = Readonly<{ url: string; port: number; close(graceMs: number): Promise<void> }>

export type HttpDoor = Readonly<{
  handle(req: IncomingMessage, res: ServerResponse): void
  /** Refuses a host that is not loopback unless keys are demanded. */
  listen(address: Readonly<{ host: string; port: number }>): Promise<HttpListener>
  /** Serves a connection that was accepted elsewhere, and of which nothing was read as HTTP yet. */
  accept(socket: Socket, peer: RelayedPeer): void
  /**
   * Takes no more requests, and finishes or fails those under way. Streams of the MCP door end when that is closed, so
   * close both at the same time.
   */
  close(graceMs: number): Promise<void>
  server: Server
}>

const MCP_METHODS = ['GET', 'POST', 'DELETE', 'OPTIONS']

export function createHttpDoor(input: HttpDoorDeps): HttpDoor {
  const deps = { ...input, random: input.random ?? systemRandom }
  const { mcp, requireKeys, bodyBytesMax } = deps
  const server = createServer(serverOptions, handle)
  const connections = trackConnections(server)
  const requestCheck = createRequestCheck(deps)
  const authenticate = createAuthenticate({ ...deps, claim: connections.claim })
  const viewOfUrl = createViewOfUrl(deps)
  const calls = createCallsUnderWay(deps)
  const tools = createToolRoutes({ ...deps, calls })
  const patterns = [
    ...createSealRoutes({ ...deps, calls, authenticate }),
    ...createRestRoutes({ ...deps, calls, authenticate }),
  ]
  const routes = createRoutes({ ...deps, tools, patterns, authenticate, viewOfUrl })
  const plainView = viewOfUrl('/mcp')
  const ownerOfPlainUrl = { principal: localOwner, ...plainView }
  let tracksHandedOver = false

  function handle(req: IncomingMessage, res: ServerResponse): void {
    connections.track(res)
    try {
      const origin = requestCheck.check(req, requireKeys || relayRequiresKeys(req.socket))
      if (origin !== undefined) allowOrigin(res, origin)
      if (connections.isClosing()) throw shuttingDown()
      requireBodyLength(req, bodyBytesMax)
      const { url = '/' } = req
      if (url === '/mcp' || url.startsWith('/mcp?')) handleMcp(req, res, url)
      else routes.handle(req, res, url)
    } catch (error) {
      refuse(req, res, error)
    }
  }

  function handleMcp(req: IncomingMessage, res: ServerResponse, url: string): void {
    if (req.method === 'OPTIONS') {
      answerOptions(req, res, MCP_METHODS)
      return
    }
    const principal = authenticate(req)
    if (principal instanceof Promise) {
      principal
        .then((known) => mcp.handleHttp(req, res, { principal: known, ...viewOfUrl(url, relayExposure(req.socket)) }))
        .catch((error: unknown) => refuse(req, res, error))
      return
    }
    const asked = viewOfUrl(url, relayExposure(req.socket))
    if (principal === localOwner && asked === plainView) mcp.handleHttp(req, res, ownerOfPlainUrl)
    else mcp.handleHttp(req, res, { principal, ...asked })
  }

  function refuse(req: IncomingMessage, res: ServerResponse, error: unknown): void {
    if (connections.isClosing()) res.shouldKeepAlive = false
    sendError(req, res, toHttpError(error, deps))
  }

  function close(graceMs: number): Promise<void> {
    const closed = connections.close(graceMs, () => calls.failAll(shuttingDown()))
    calls.endStreams()
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
      if (!tracksHandedOver && !server.listening) server.emit('listening')
      tracksHandedOver = true
      markRelayed(socket, peer)
      socket.setNoDelay(true)
      server.emit('connection', socket)
      socket.resume()
    },
  }
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
    `host: ${host} can be reached from other machines, which needs API keys. Make one with castellan keys create, or listen on 127.0.0.1.`,
    { field: 'host' },
  )

const shuttingDown = (): AppError =>
  new AppError('ERR_SHUTTING_DOWN', 'The server is shutting down. Connect again after the restart.', {
    retry_after_ms: limits.shutdownGraceMs,
  })
