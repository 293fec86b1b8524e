import { BlockList, isIP } from 'node:net'

/**
 * IPv4 that is not the open internet: the special-purpose registry, and one metadata service outside it. The ranges
 * reserved for documentation are left out: nobody has them, so nothing is gained by closing them.
 */
const special4: readonly (readonly [network: string, prefix: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
]

/** Only global unicast is open; within it, what is assigned to protocols, documentation, or embeds an IPv4 address. */
const global6: readonly [network: string, prefix: number] = ['2000::', 3]
const special6: readonly (readonly [network: string, prefix: number])[] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
]

const closed4 = new BlockList()
for (const [network, prefix] of special4) closed4.addSubnet(network, prefix, 'ipv4')
const open6 = new BlockList()
open6.addSubnet(...global6, 'ipv6')
const closed6 = new BlockList()
for (const [network, prefix] of special6) closed6.addSubnet(network, prefix, 'ipv6')

/** Whether an address lies on the open internet. Whatever is no address, or is written with a zone, does not. */
export function isPublicAddress(address: string): boolean {
  if (address.includes('%')) return false
  const family = isIP(address)
  if (family === 4) return !closed4.check(address, 'ipv4')
  return family === 6 && open6.check(address, 'ipv6') && !closed6.check(address, 'ipv6')
}
