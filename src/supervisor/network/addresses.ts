import { BlockList, isIPv4 } from 'node:net'

/** The hub's address in workspaces: their gateway and resolver. */
export const hubAddress = '10.99.0.1'
export const workspaceNetwork = '10.99.0.0/16'

/**
 * With a domain list, the address of the egress endpoints inside the workspace's network: the resolver, the address of every
 * allowed name, and the proxy. It is a loopback address, so it needs no device.
 */
export const egressAddress = '127.99.0.1'
export const proxyPort = 3128

/** The device that slirp4netns creates in the hub's network namespace. */
export const uplinkDevice = 'tap0'
export const uplinkNetwork = '10.0.2.0/24'
export const uplinkAddress = '10.0.2.100'
export const uplinkGateway = '10.0.2.2'
/** slirp4netns answers here with the host's resolver. The hub asks it unless the operator named another server. */
export const uplinkResolver = '10.0.2.3'

/**
 * Addresses that are never the internet: this machine, private networks, cloud metadata, and multicast. The ranges reserved for
 * documentation are not listed: no host has them.
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
