import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { CertificateAuthority } from './certificate-authority.ts'
import type { CheckedConnector } from './checked-connection.ts'
import { type ClientConnection, createConnectionTable, type DirectEnd } from './connection-table.ts'
import type { EgressLimits } from './egress-limits.ts'
import { type EgressPolicy, type EgressRules, readEgressPolicy } from './egress-policy.ts'
import { endWith } from './end-with.ts'
import { answerRefusal, createRequestForwarder, type ForwardedRequest } from './forward-request.ts'
import { openDirect, openTunnel, type TunnelDeps, type TunnelEnd, tlsAlert } from './open-tunnel.ts'
import { peekFirstBytes } from './peek-first-bytes.ts'
import { type Refusal, type RefusalReason, rawRefusal, refuse } from './refusal.ts'
import { readHost, readTarget, type Target, targetName } from './target.ts'

type ProxyHandlerDeps = Readonly<{
  policyOf(client: string): EgressPolicy | undefined
  /** Called for every refusal. */
  onRefused(client: string, target: string, reason: RefusalReason): void
  connector: CheckedConnector
  authority: CertificateAuthority | undefined
  mayHideName: boolean
  limits: EgressLimits
  logger: Logger
  clock: Clock
}>

export type EgressCounters = Readonly<{
  connectionsOpen: number
  connectionsTotal: number
  requests: number
  /** Tunnels whose TLS was passed through. */
  blindTunnels: number
  /** Tunnels whose TLS was terminated to add credentials. */
  openedTunnels: number
  refused: Readonly<Partial<Record<RefusalReason, number>>>
}>

type Verdict = Readonly<{ rules: EgressRules; refusal?: never }> | Readonly<{ refusal: Refusal; rules?: never }>
type Request = Readonly<{ target: Target; scheme: 'http' | 'https'; path: string }>

/** Handles all connections of the proxy. One HTTP server parses both the requests to the proxy and those inside tunnels. */
export function createProxyHandlers(deps: ProxyHandlerDeps) {
  const table = createConnectionTable(deps.limits)
  const judge = createJudge(deps)
  const logRefusal = createRefusalLog(deps)
  const counts = { requests: 0, blindTunnels: 0, openedTunnels: 0 }
  const refused: Partial<Record<RefusalReason, number>> = {}

  function note(refusal: Refusal, address: string, target: string): Refusal {
    refused[refusal.reason] = (refused[refusal.reason] ?? 0) + 1
    logRefusal(refusal, address, target)
    deps.onRefused(address, target, refusal.reason)
    return refusal
  }

  const forwarderOf = ({ address }: ClientConnection) =>
    createRequestForwarder({
      connector: deps.connector,
      headerBytesMax: deps.limits.headerBytesMax,
      onRefusal: (refusal, target) => note(refusal, address, targetName(target)),
    })

  /** Returns the request to forward, or the reason for a refusal. */
  function accept(
    request: IncomingMessage,
    connection: ClientConnection,
    end: TunnelEnd | DirectEnd | undefined,
  ): ForwardedRequest | Refusal {
    const read = readRequest(request, end)
    if ('reason' in read) return note(read, connection.address, '')
    const verdict = judge(connection.address, read.target)
    if (verdict.refusal !== undefined) return note(verdict.refusal, connection.address, targetName(read.target))
    const isRemembered = remember(connection, read.target, verdict.rules)
    if (!isRemembered || connection.pending >= deps.limits.pendingRequestsMax) {
      const message = 'Too many requests on one connection; open another.'
      return note(refuse('too-many-connections', message), connection.address, targetName(read.target))
    }
    counts.requests += 1
    return { request, ...read, rules: verdict.rules }
  }

  const remember = (connection: ClientConnection, target: Target, rules: EgressRules): boolean =>
    table.noteUse(connection, target, rules.credentialsOf(target).length > 0)

  async function onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const found = table.find(request.socket)
    // The connection was refused as one too many and has its answer.
    if (found === undefined) return
    const { connection, end } = found
    const forwarded = accept(request, connection, end)
    if ('reason' in forwarded) return answerRefusal(response, forwarded)
    connection.pending += 1
    response.once('close', () => {
      connection.pending -= 1
    })
    await forwarderOf(connection).forward(forwarded, response)
  }

  async function onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy())
    socket.setTimeout(deps.limits.idleMs, () => socket.destroy())
    const found = table.find(request.socket)
    if (found === undefined) return
    const forwarded = accept(request, found.connection, found.end)
    if ('reason' in forwarded) return endWith(socket, rawRefusal(forwarded))
    await forwarderOf(found.connection).forwardUpgrade(forwarded, socket, head)
  }

  async function onConnect(server: Server, request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy())
    socket.setTimeout(deps.limits.idleMs, () => socket.destroy())
    const found = table.find(socket)
    const target = readTarget(request.url ?? '', undefined)
    if (found === undefined) return
    if (found.end !== undefined) return void socket.destroy()
    const { connection } = found
    const refuseIt = (refusal: Refusal): void =>
      endWith(socket, rawRefusal(note(refusal, connection.address, target === undefined ? '' : targetName(target))))
    if (target === undefined) return refuseIt(refuse('bad-request', 'CONNECT needs host:port.'))
    const verdict = judge(connection.address, target)
    if (verdict.refusal !== undefined) return refuseIt(verdict.refusal)
    remember(connection, target, verdict.rules)
    await openTunnel(tunnelDepsOf(server, connection), socket, head, { target, rules: verdict.rules })
  }

  const tunnelDepsOf = (server: Server, connection: ClientConnection): TunnelDeps => ({
    connector: deps.connector,
    authority: deps.authority,
    helloMs: deps.limits.helloMs,
    mayHideName: deps.mayHideName,
    onRefusal: (refusal, target) => void note(refusal, connection.address, targetName(target)),
    onTunnel: (kind) => {
      counts[kind === 'blind' ? 'blindTunnels' : 'openedTunnels'] += 1
    },
    serveInside: (socket, end) => serve(server, connection, socket, end),
  })

  /** Returns undefined if there are too many connections; the workload is told so where the protocol allows it. */
  function admit(
    socket: Socket,
    client: string,
    lastWords: (refusal: Refusal) => string,
  ): ClientConnection | undefined {
    const connection = table.admit(socket, client)
    if (connection !== undefined) return connection
    const refusal = note(refuse('too-many-connections', 'Too many connections are open.'), client, '')
    socket.on('error', () => socket.destroy())
    endWith(socket, lastWords(refusal))
    return undefined
  }

  /** Identifies the host by the ClientHello or by the Host header. */
  async function onDirect(server: Server, socket: Socket, client: string, port: number): Promise<void> {
    const connection = admit(socket, client, () => '')
    if (connection === undefined) return
    socket.on('error', () => socket.destroy())
    socket.setTimeout(deps.limits.idleMs, () => socket.destroy())
    const first = await peekFirstBytes(socket, deps.limits.helloMs)
    if (first === undefined || socket.destroyed) return void socket.destroy()
    if (first.kind === 'plain') return serve(server, connection, socket, { directPort: port })
    const refuseIt = (refusal: Refusal, name: string): void => endWith(socket, tlsAlert(note(refusal, client, name)))
    const host = first.kind === 'hello' && first.serverName !== undefined ? readHost(first.serverName) : undefined
    if (host === undefined) {
      const message = 'Named hosts can be reached only over HTTP, or over TLS with a server name.'
      return refuseIt(refuse(first.kind === 'hello' ? 'name-mismatch' : 'not-http', message), '')
    }
    const target = { host, port }
    const verdict = judge(client, target)
    if (verdict.refusal !== undefined) return refuseIt(verdict.refusal, targetName(target))
    remember(connection, target, verdict.rules)
    await openDirect(tunnelDepsOf(server, connection), socket, first, { target, rules: verdict.rules })
  }

  function serve(server: Server, connection: ClientConnection, socket: Socket, end: TunnelEnd | DirectEnd): void {
    table.adopt(connection, socket, end)
    server.emit('connection', socket)
    // A socket that was paused to peek at its first bytes stays paused until it is resumed.
    socket.resume()
  }

  /** An internal error in one connection ends only that connection. */
  const guarded = (socket: Socket, work: Promise<void>): void => {
    work.catch((error: unknown) => {
      deps.logger.error('egress connection failed', { error: String(error) })
      socket.destroy()
    })
  }

  return {
    attach(server: Server): void {
      // A connection from elsewhere has no identity.
      server.on('connection', (socket) => void (table.find(socket) ?? socket.destroy()))
      server.on('request', (request, response) => guarded(request.socket, onRequest(request, response)))
      server.on('upgrade', (request, socket, head) =>
        guarded(request.socket, onUpgrade(request, socket as Socket, head)),
      )
      server.on('connect', (request, socket, head) =>
        guarded(request.socket, onConnect(server, request, socket as Socket, head)),
      )
    },
    /** For a workload that uses a proxy. */
    take(server: Server, socket: Socket, client: string): void {
      if (admit(socket, client, rawRefusal) !== undefined) server.emit('connection', socket)
    },
    /** For a transparent connection: the workload believes that it is connected to the host, on this port. */
    takeDirect(server: Server, socket: Socket, client: string, port: number): void {
      guarded(socket, onDirect(server, socket, client, port))
    },
    counters: (): EgressCounters => ({ ...table.counts(), ...counts, refused: { ...refused } }),
    policyChanged(address: string): number {
      const stale = table.ofAddress(address).filter((connection) =>
        [...connection.used.values()].some(({ target, withCredentials }) => {
          const { rules } = judge(address, target)
          return rules === undefined || rules.credentialsOf(target).length > 0 !== withCredentials
        }),
      )
      for (const { socket } of stale) socket.destroy()
      return stale.length
    },
    closeAll(): void {
      for (const { socket } of table.all()) socket.destroy()
    },
  }
}

function createJudge(deps: Pick<ProxyHandlerDeps, 'policyOf' | 'logger'>) {
  const read = new WeakMap<EgressPolicy, EgressRules>()
  const rulesOf = (policy: EgressPolicy): EgressRules => {
    const rules = read.get(policy) ?? readEgressPolicy(policy)
    read.set(policy, rules)
    return rules
  }
  return (address: string, target: Target): Verdict => {
    const policy = deps.policyOf(address)
    if (policy === undefined) return { refusal: refuse('no-policy', 'This address may not use the proxy.') }
    try {
      const rules = rulesOf(policy)
      if (rules.allows(target)) return { rules }
    } catch (error) {
      deps.logger.error('egress policy is not valid', { address, error: String(error) })
      return { refusal: refuse('no-policy', 'The network policy of this workspace is not valid. Ask the operator.') }
    }
    const message = `${targetName(target)} is not among the allowed domains of this workspace.`
    return { refusal: refuse('host-not-allowed', message) }
  }
}

function readRequest(request: IncomingMessage, end: TunnelEnd | DirectEnd | undefined): Request | Refusal {
  if (end === undefined) return readOutside(request)
  return 'directPort' in end ? readDirect(request, end.directPort) : readInside(request, end)
}

/** Origin form. The host comes from the request, the port from the connection. */
function readDirect(request: IncomingMessage, port: number): Request | Refusal {
  const target = readTarget(request.headers.host ?? '', port)
  if (target === undefined) return refuse('bad-request', 'The request has no Host header that names a host.')
  if (target.port !== port) return refuse('name-mismatch', `The Host header names a port other than ${port}.`)
  const path = request.url ?? ''
  if (!path.startsWith('/') && path !== '*') return refuse('bad-request', 'The request target must be a path.')
  return { target, scheme: 'http', path }
}

/** Absolute form, as clients send it to a proxy. */
function readOutside(request: IncomingMessage): Request | Refusal {
  const parts = /^http:\/\/([^/?#]*)([^#]*)/i.exec(request.url ?? '')
  const target = parts === null ? undefined : readTarget(parts[1]!, 80)
  if (parts === null || target === undefined) {
    return refuse('bad-request', 'This is a proxy. Request http://host/path, or use CONNECT host:port for HTTPS.')
  }
  const path = parts[2]!
  return { target, scheme: 'http', path: path.startsWith('/') ? path : `/${path}` }
}

/** Origin form. The host must be the tunnel's target, or its credentials would go elsewhere. */
function readInside(request: IncomingMessage, { target, scheme }: TunnelEnd): Request | Refusal {
  const named = readTarget(request.headers.host ?? '', scheme === 'https' ? 443 : 80)
  if (named === undefined || targetName(named) !== targetName(target)) {
    return refuse('name-mismatch', `The Host header is not ${targetName(target)}, the target of the tunnel.`)
  }
  const path = request.url ?? ''
  if (!path.startsWith('/') && path !== '*')
    return refuse('bad-request', 'The request target inside a tunnel must be a path.')
  return { target, scheme, path }
}

const REPEAT_MS = 10_000
const RETAINED_MAX = 1024

/** Rate-limited: a workload that repeats a refused request increments the counters, but does not fill the log. */
function createRefusalLog({ logger, clock }: Readonly<{ logger: Logger; clock: Clock }>) {
  const lastMs = new Map<string, number>()
  return (refusal: Refusal, address: string, target: string): void => {
    const key = `${address} ${target} ${refusal.reason}`
    const nowMs = clock.monotonicMs()
    if (nowMs - (lastMs.get(key) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return
    if (lastMs.size >= RETAINED_MAX) lastMs.clear()
    lastMs.set(key, nowMs)
    logger.info('egress refused', { address, target, reason: refusal.reason })
  }
}
