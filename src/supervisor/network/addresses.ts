import { BlockList, isIPv4 } from 'node:net'

/** The hub as workspaces see it: their gateway and their resolver. */
export const hubAddress = '10.99.0.1'
export const workspaceNetwork = '10.99.0.0/16'

/**
 * With a domain list, the way out inside a workspace's own network: its resolver, the address that every allowed name has
 * there, and a proxy for those who ask one. A loopback address, so that it is there without any device.
 */
export const wayOutAddress = '127.99.0.1'
export const proxyPort = 3128

/** The network that slirp4netns gives the hub. */
export const uplinkDevice = 'tap0'
export const uplinkNetwork = '10.0.2.0/24'
export const uplinkAddress = '10.0.2.100'
export const uplinkGateway = '10.0.2.2'
/** Answers with the host's resolver. A process that resolves names inside the hub asks here, unless the operator named another. */
export const uplinkResolver = '10.0.2.3'

/**
 * What is never the internet: this machine, networks that only it can reach, cloud metadata, and what is not one host.
 * The ranges reserved for documentation are left out: nobody has them, so nothing is gained by closing them.
 */
export const closedRanges: readonly string[] = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
]

const workspaces = new BlockList()
workspaces.addSubnet('10.99.0.0', 16, 'ipv4')

export function isWorkspaceAddress(address: string): boolean {
  return isIPv4(address) && workspaces.check(address, 'ipv4') && address !== hubAddress
}
