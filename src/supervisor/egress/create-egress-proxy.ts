import type { Socket } from 'node:net'
import { createSecureContext, rootCertificates } from 'node:tls'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { createServer } from '../../kernel/node-http.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { type CertificateAuthority, openCertificateAuthority } from './certificate-authority.ts'
import { type Connect, createCheckedConnector, type Resolve } from './checked-connection.ts'
import { defaultEgressLimits, type EgressLimits } from './egress-limits.ts'
import type { EgressPolicy } from './egress-policy.ts'
import { createProxyHandlers, type EgressCounters } from './proxy-handlers.ts'
import type { RefusalReason } from './refusal.ts'

export type EgressProxyOptions = Readonly<{
  /** Called for each request. A client without a policy is refused everything. */
  policyOf(client: string): EgressPolicy | undefined
  /** Called for every refusal. `target` is empty if the request named none. */
  onRefused?(client: string, target: string, reason: RefusalReason): void
  /** The folder of the authority for hosts with credentials. */
  caDirectory: string
  resolve: Resolve
  /** Called only for addresses that passed. */
  connect: Connect
  /** Refuses addresses that are public but belong to this machine. */
  isClosed?(address: string): boolean
  /** The authorities to accept for upstream certificates, instead of the default ones. */
  upstreamCa?: string | readonly string[]
  /** Allows a ClientHello whose real server name is encrypted. Some browsers always send an extension that looks like one. */
  allowEncryptedClientHello?: boolean
  limits?: Partial<EgressLimits>
  logger: Logger
  clock: Clock
  random: Random
}>

export type EgressProxy = Readonly<{
  /** Takes a connection of a workload that uses a proxy. Only the caller knows which workload it is. */
  take(socket: Socket, client: string): void
  /** Takes a transparent connection: the workload believes that it is connected to the host, on this port. */
  takeDirect(socket: Socket, client: string, port: number): void
  /** For the trust store of workspaces; undefined if no authority could be created, so that credentials cannot be added. */
  caCertificatePem: string | undefined
  counters(): EgressCounters
  /** Closes the connections of a client that its current policy forbids. Returns how many there were. */
  policyChanged(client: string): number
  /** The authorities to accept for upstream certificates, from the next connection on. */
  setUpstreamCa(upstreamCa: string | readonly string[]): void
  close(): Promise<void>
}>

const CLIENT_KEEP_ALIVE_MS = 60_000
const HEAD_CHECK_MS = 5000

/** The authorities that Node ships, in PEM. */
export const usualAuthorities = rootCertificates.join('\n')

/**
 * The egress proxy for workspaces that may reach named hosts only. It speaks HTTP/1.1 and TLS, as an explicit proxy and
 * transparently. It does not listen: the caller passes in connections with the identity of the workload.
 */
export async function createEgressProxy(options: EgressProxyOptions): Promise<EgressProxy> {
  const limits = { ...defaultEgressLimits, ...options.limits }
  const authority = await tryOpenAuthority(options, limits)
  const { upstreamCa } = options
  let upstreamTls = createSecureContext(upstreamCa === undefined ? {} : { ca: [upstreamCa].flat() })
  const handlers = createProxyHandlers({
    policyOf: options.policyOf,
    onRefused: options.onRefused ?? (() => {}),
    connector: createCheckedConnector({
      resolve: options.resolve,
      connect: options.connect,
      isClosed: options.isClosed ?? (() => false),
      connectMs: limits.connectMs,
      upstreamTls: () => upstreamTls,
    }),
    authority,
    mayHideName: options.allowEncryptedClientHello ?? false,
    limits,
    logger: options.logger,
    clock: options.clock,
  })
  const server = createServer({
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headMs,
    requestTimeout: 0,
    connectionsCheckingInterval: Math.min(limits.headMs, HEAD_CHECK_MS),
    keepAliveTimeout: CLIENT_KEEP_ALIVE_MS,
    noDelay: true,
    shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
  })
  server.timeout = limits.idleMs
  handlers.attach(server)
  // A Node server enforces its time-outs only while it listens. This abstract socket is in no file system, and connections to it
  // are closed.
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path: `\0castellan-${randomId(options.random, 'egress')}` }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  return {
    take: (socket, client) => handlers.take(server, socket, client),
    takeDirect: (socket, client, port) => handlers.takeDirect(server, socket, client, port),
    caCertificatePem: authority?.certificatePem,
    counters: handlers.counters,
    policyChanged: handlers.policyChanged,
    setUpstreamCa(next) {
      upstreamTls = createSecureContext({ ca: [next].flat().filter((pem) => pem !== '') })
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      handlers.closeAll()
      server.closeAllConnections()
      await closed
    },
  }
}

/** Without an authority, everything that needs no credentials still works. */
async function tryOpenAuthority(
  { caDirectory, clock, logger }: EgressProxyOptions,
  { leavesMax }: EgressLimits,
): Promise<CertificateAuthority | undefined> {
  try {
    return await openCertificateAuthority({ directory: caDirectory, clock, leavesMax })
  } catch (error) {
    logger.error('egress proxy has no certificate authority: hosts with credentials cannot be reached', {
      error: String(error),
    })
    return undefined
  }
}
