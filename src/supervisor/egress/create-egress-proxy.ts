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
  /** Asked anew for each request; a client without a policy gets nothing. */
  policyOf(client: string): EgressPolicy | undefined
  /** Told of everything that is refused; `target` is empty where none was named. */
  onRefused?(client: string, target: string, reason: RefusalReason): void
  /** Where the authority for hosts with credentials is kept. */
  caDirectory: string
  resolve: Resolve
  /** Reaches an address that passed. */
  connect: Connect
  /** Addresses that nobody may reach, though they are public: those of this machine. */
  isClosed?(address: string): boolean
  /** Authorities that upstream certificates must come from, instead of the usual ones. */
  upstreamCa?: string | readonly string[]
  /** Lets TLS hellos through whose true server name is encrypted. Some browsers always look as if they had one. */
  allowEncryptedClientHello?: boolean
  limits?: Partial<EgressLimits>
  logger: Logger
  clock: Clock
  random: Random
}>

export type EgressProxy = Readonly<{
  /** A connection of a workload that asks a proxy. Whose it is only the caller can know. */
  take(socket: Socket, client: string): void
  /** A connection of a workload that takes this side for the host that it looks for, on this port. */
  takeDirect(socket: Socket, client: string, port: number): void
  /** For the trust store of workspaces; `undefined` when no authority could be made, so credentials cannot be added. */
  caCertificatePem: string | undefined
  counters(): EgressCounters
  /** Closes connections of a client that its policy of now does not allow. Answers how many there were. */
  policyChanged(client: string): number
  /** Authorities that upstream certificates must come from, from the next connection on. */
  setUpstreamCa(upstreamCa: string | readonly string[]): void
  /** Ends every connection. */
  close(): Promise<void>
}>

const CLIENT_KEEP_ALIVE_MS = 60_000
const HEAD_CHECK_MS = 5000

/** What Node itself comes with, in PEM. */
export const usualAuthorities = rootCertificates.join('\n')

/**
 * The way out of workspaces that may reach named hosts only: HTTP/1.1 and TLS, for those who ask a proxy and for those who
 * take it for the host. It listens nowhere: it is given connections, with the name of whose they are.
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
  // A server that listens nowhere does not look after the times of its connections. This name is in no file system, and who
  // comes that way is sent off.
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
