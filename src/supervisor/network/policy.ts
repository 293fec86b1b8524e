import { isIPv4 } from 'node:net'
import { AppError } from '../../contract/app-error.ts'
import type { NetworkSpec } from '../../domains/workspaces/backend.ts'
import { egressAddress, hubAddress, isWorkspaceAddress } from './addresses.ts'

/** The host's own addresses, which no workspace may reach, and the name server. */
export type HostNetwork = Readonly<{ hostAddresses: readonly string[]; resolver: string }>

/**
 * A workspace without access to other workspaces and to the whole internet needs no link: its namespace has only `lo`. Named
 * hosts and forwarded ports are served inside it.
 */
export function needsLink(spec: NetworkSpec): boolean {
  return hasDirectInternet(spec) || spec.allowInterVm || spec.allowedPorts.length > 0 || spec.peers.length > 0
}

/** A domain list disables direct egress, whatever `allowInternet` says: the proxy is the only route. */
export function hasDirectInternet(spec: NetworkSpec): boolean {
  return spec.allowInternet && spec.allowedDomains.length === 0
}

/** The workspace's `/etc/resolv.conf`. With a domain list, the resolver inside the workspace answers. */
export function resolverText(spec: NetworkSpec): string {
  if (spec.allowedDomains.length > 0) return `nameserver ${egressAddress}\noptions timeout:2 attempts:2\n`
  return hasDirectInternet(spec) ? `nameserver ${hubAddress}\noptions timeout:2 attempts:2\n` : ''
}

const isPort = (port: number): boolean => Number.isInteger(port) && port >= 1 && port <= 65_535

/** Checks every value that becomes part of a rule, even if it was checked before. */
export function checkNetworkSpec(spec: NetworkSpec): void {
  const ports = [...spec.allowedPorts, ...spec.forwards.flatMap((forward) => [forward.hostPort, forward.guestPort])]
  if (!ports.every(isPort)) {
    throw new AppError('ERR_INVALID_INPUT', 'A port of the network policy is not a whole number from 1 to 65535.')
  }
  if (!spec.peers.every(isWorkspaceAddress)) {
    throw new AppError('ERR_INVALID_INPUT', 'A peer of the network policy is not the address of a workspace.')
  }
  if (new Set(spec.forwards.map((forward) => forward.hostPort)).size !== spec.forwards.length) {
    throw new AppError('ERR_INVALID_INPUT', 'Two forwards have the same host port. Give each its own.')
  }
}

export function checkHostNetwork({ hostAddresses, resolver }: HostNetwork): void {
  if (![...hostAddresses, resolver].every((address) => isIPv4(address))) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      'An address of the host or of its resolver is not IPv4. Leave it out: workspaces can reach only IPv4 addresses.',
    )
  }
}
