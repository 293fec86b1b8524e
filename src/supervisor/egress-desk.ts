import { readFile } from 'node:fs/promises'
import type { NetworkSpec } from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { resolveByDns } from './egress/checked-connection.ts'
import { createEgressProxy, type EgressProxy } from './egress/create-egress-proxy.ts'
import type { EgressCredential } from './egress/egress-policy.ts'
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
      policyOf(address) {
        const network = networks.get(address)
        if (network === undefined || network.allowedDomains.length === 0) return undefined
        return { domains: network.allowedDomains, credentials: network.withCredentials === true ? credentials : [] }
      },
    })
  } catch (error) {
    deps.logger.warn('There is no egress proxy, so no workspace reaches a host by name.', { error: String(error) })
  }
  const usual = await readFile(HOST_AUTHORITIES, 'utf8').catch(() => '')
  return {
    setCredentials(next) {
      credentials = next
      for (const ip of networks.keys()) proxy?.policyChanged(ip)
    },
    set(ip, network) {
      networks.set(ip, network)
      proxy?.policyChanged(ip)
    },
    forget(ip) {
      networks.delete(ip)
      proxy?.policyChanged(ip)
    },
    trustedAuthorities: () => `${usual}${proxy?.caCertificatePem ?? ''}`,
  }
}
