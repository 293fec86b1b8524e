import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createSecureContext, rootCertificates } from 'node:tls'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { type CertificateAuthority, openCertificateAuthority } from './certificate-authority.ts'
import { createCheckedConnector, type Resolve, resolveByDns } from './checked-connection.ts'
import { defaultEgressLimits, type EgressLimits } from './egress-limits.ts'
import type { EgressPolicy } from './egress-policy.ts'
import { createProxyHandlers, type EgressCounters } from './proxy-handlers.ts'

export type EgressProxyOptions = Readonly<{
  host: string
  port: number
  /** Asked anew for each request; an address without a policy gets nothing. IPv4 addresses come in dotted form. */
  policyOf(remoteAddress: string): EgressPolicy | undefined
  /** Where the authority for hosts with credentials is kept. */
  caDirectory: string
  resolve?: Resolve
  /** Authorities that upstream certificates must come from, instead of the usual ones. */
  upstreamCa?: string | readonly string[]
  /** Lets TLS hellos through whose true server name is encrypted. Some browsers always look as if they had one. */
  allowEncryptedClientHello?: boolean
  limits?: Partial<EgressLimits>
  logger: Logger
  clock: Clock
}>

export type EgressProxy = Readonly<{
  port: number
  /** For the trust store of workspaces; `undefined` when no authority could be made, so credentials cannot be added. */
  caCertificatePem: string | undefined
  counters(): EgressCounters
  /** Closes connections of an address that its policy of now does not allow. Answers how many there were. */
  policyChanged(remoteAddress: string): number
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
 * The way out of workspaces that may reach named hosts only: an HTTP/1.1 proxy that knows, by the address that asks,
 * what is allowed. The network must make sure that a workspace cannot send from another's address.
 */
export async function createEgressProxy(options: EgressProxyOptions): Promise<EgressProxy> {
  const limits = { ...defaultEgressLimits, ...options.limits }
  const authority = await tryOpenAuthority(options, limits)
  const { upstreamCa } = options
  let upstreamTls = createSecureContext(upstreamCa === undefined ? {} : { ca: [upstreamCa].flat() })
  const handlers = createProxyHandlers({
    policyOf: options.policyOf,
    connector: createCheckedConnector({
      resolve: options.resolve ?? resolveByDns(),
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
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: options.host, port: options.port }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  return {
    port: (server.address() as AddressInfo).port,
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
    logger.error('egress proxy has no authority: hosts with credentials cannot be reached', { error: String(error) })
    return undefined
  }
}
