import { readFile } from 'node:fs/promises'
import type { NetworkSpec } from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { resolveByDns } from './egress/checked-connection.ts'
import { createEgressProxy, type EgressProxy } from './egress/create-egress-proxy.ts'
import type { EgressCredential, EgressPolicy } from './egress/egress-policy.ts'
import { hubAddress, proxyPort, uplinkResolver } from './network/index.ts'

/** The way out by name: the proxy, with the policy of whoever asks. */
export type EgressDesk = Readonly<{
  /** Secrets for hosts, of the operator. They are kept in memory only. */
  setCredentials(credentials: readonly EgressCredential[]): void
  /** Known from here on by its address; a changed policy ends what it no longer allows. */
  set(ip: string, network: NetworkSpec): void
  forget(ip: string): void
  /** What a workspace must trust so that the proxy can add credentials: the usual authorities and the proxy's own. */
  trustedAuthorities(): string
}>

/** Where a workspace finds them. */
export const TRUST_PATH = '/etc/castellan/ca-bundle.crt'

const HOST_AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt'

export async function openEgressDesk(deps: { caDirectory: string; clock: Clock; logger: Logger }): Promise<EgressDesk> {
  const networks = new Map<string, NetworkSpec>()
  /** One object for each policy, because the proxy reads each only once. */
  const policies = new Map<string, EgressPolicy>()
  let credentials: readonly EgressCredential[] = []
  let proxy: EgressProxy | undefined
  try {
    proxy = await createEgressProxy({
      host: hubAddress,
      port: proxyPort,
      caDirectory: deps.caDirectory,
      resolve: resolveByDns([uplinkResolver]),
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
    else policies.set(ip, { domains, credentials: withCredentials === true ? credentials : [] })
    proxy?.policyChanged(ip)
  }
  const usual = await readFile(HOST_AUTHORITIES, 'utf8').catch(() => '')
  return {
    setCredentials(next) {
      credentials = next
      for (const [ip, network] of networks) apply(ip, network)
    },
    set: apply,
    forget(ip) {
      networks.delete(ip)
      policies.delete(ip)
      proxy?.policyChanged(ip)
    },
    trustedAuthorities: () => `${usual}${proxy?.caCertificatePem ?? ''}`,
  }
}
