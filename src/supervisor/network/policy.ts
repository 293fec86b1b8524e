import { isIPv4 } from 'node:net'
import { AppError } from '../../contract/app-error.ts'
import type { NetworkSpec } from '../../domains/workspaces/backend.ts'
import { hubAddress, isWorkspaceAddress, wayOutAddress } from './addresses.ts'

/** What is around the hub: the host's own addresses, which nobody may reach, and who is asked for names. */
export type ExecutionEnvironment = Readonly<{ hostAddresses: readonly string[]; resolver: string }>

/**
 * A workspace that talks to no other and not to the whole internet needs no link: its namespace has `lo` and no way
 * anywhere. Named hosts and forwarded ports are served inside it.
 */
export function needsLink(spec: NetworkSpec): boolean {
  return hasDirectInternet(spec) || spec.allowInterVm || spec.allowedPorts.length > 0 || spec.peers.length > 0
}

/** A list of domains closes the direct way out, whatever `allowInternet` says: the proxy is the only one. */
export function hasDirectInternet(spec: NetworkSpec): boolean {
  return spec.allowInternet && spec.allowedDomains.length === 0
}

/** The workspace's `/etc/resolv.conf`. With a list of domains, the way out inside it answers for those. */
export function resolverText(spec: NetworkSpec): string {
  if (spec.allowedDomains.length > 0) return `nameserver ${wayOutAddress}\noptions timeout:2 attempts:2\n`
  return hasDirectInternet(spec) ? `nameserver ${hubAddress}\noptions timeout:2 attempts:2\n` : ''
}

const isPort = (port: number): boolean => Number.isInteger(port) && port >= 1 && port <= 65_535

/** Everything that becomes part of a rule is checked here, even if it was checked before. */
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

export function checkEnvironment({ hostAddresses, resolver }: ExecutionEnvironment): void {
  if (![...hostAddresses, resolver].every((address) => isIPv4(address))) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      "An address of the host or of its resolver is not IPv4; leave the others out, they can't be reached.",
    )
  }
}
