import { readFile } from 'node:fs/promises'
import type { NetworkSpec } from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { resolveByDns } from './egress/checked-connection.ts'
import { createEgressProxy, type EgressProxy, usualAuthorities } from './egress/create-egress-proxy.ts'
import type { EgressCredential, EgressPolicy } from './egress/egress-policy.ts'
import { hubAddress, proxyPort, uplinkResolver } from './network/index.ts'

/** What the operator wants of the way out. Credentials are secrets for hosts, and kept in memory only. */
export type EgressSettings = Readonly<{
  credentials: readonly EgressCredential[]
  /** Who is asked for names; without one, the host's resolver. */
  resolver: string | undefined
  /** Certificates in PEM of further authorities that hosts may have theirs from. */
  authorities: string
}>

/** The way out by name: the proxy, with the policy of whoever asks. */
export type EgressDesk = Readonly<{
  configure(settings: EgressSettings): void
  /** Known from here on by its address; a changed policy ends what it no longer allows. */
  set(ip: string, network: NetworkSpec): void
  forget(ip: string): void
  /** What a workspace must trust: the usual authorities, the operator's, and the proxy's own, which adds credentials. */
  trustedAuthorities(): string
}>

/** Where distributions keep the authorities that the machine trusts. */
const HOST_AUTHORITIES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

export async function openEgressDesk(deps: { caDirectory: string; clock: Clock; logger: Logger }): Promise<EgressDesk> {
  const networks = new Map<string, NetworkSpec>()
  /** One object for each policy, because the proxy reads each only once. */
  const policies = new Map<string, EgressPolicy>()
  const usual = await readHostAuthorities()
  let settings: EgressSettings = { credentials: [], resolver: undefined, authorities: '' }
  let resolve = resolveByDns([uplinkResolver])
  let proxy: EgressProxy | undefined
  try {
    proxy = await createEgressProxy({
      host: hubAddress,
      port: proxyPort,
      caDirectory: deps.caDirectory,
      upstreamCa: usual,
      resolve: (host) => resolve(host),
      clock: deps.clock,
      logger: deps.logger,
      policyOf: (address) => policies.get(address),
    })
  } catch (error) {
    deps.logger.warn('There is no egress proxy, so no workspace reaches a host by name.', { error: String(error) })
  }
  function apply(ip: string, network: NetworkSpec): void {
    networks.set(ip, network)
    const { allowedDomains: domains, withCredentials } = network
    if (domains.length === 0) policies.delete(ip)
    else policies.set(ip, { domains, credentials: withCredentials === true ? settings.credentials : [] })
    proxy?.policyChanged(ip)
  }
  return {
    configure(next) {
      settings = next
      resolve = resolveByDns([next.resolver ?? uplinkResolver])
      proxy?.setUpstreamCa([usual, next.authorities])
      for (const [ip, network] of networks) apply(ip, network)
    },
    set: apply,
    forget(ip) {
      networks.delete(ip)
      policies.delete(ip)
      proxy?.policyChanged(ip)
    },
    trustedAuthorities: () =>
      [usual, settings.authorities, proxy?.caCertificatePem ?? '']
        .map((pem) => (pem === '' ? '' : `${pem}\n`))
        .join(''),
  }
}

/** A machine that keeps none, or elsewhere, trusts those that Node comes with. */
async function readHostAuthorities(): Promise<string> {
  for (const path of HOST_AUTHORITIES) {
    const text = await readFile(path, 'utf8').catch(() => '')
    if (text !== '') return text
  }
  return usualAuthorities
}
