import { BlockList, isIP } from 'node:net'

/**
 * IPv4 ranges that are not the public internet: the special-purpose registry, and one metadata service outside it. The
 * documentation ranges are omitted: nobody has them, so closing them gains nothing.
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

/** Only global unicast is public; within it, ranges for protocols, documentation, or embedded IPv4 addresses are excluded. */
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

/** Whether an address is on the public internet. Anything else, or an address with a zone, is not. */
export function isPublicAddress(address: string): boolean {
  if (address.includes('%')) return false
  const family = isIP(address)
  if (family === 4) return !closed4.check(address, 'ipv4')
  return family === 6 && open6.check(address, 'ipv6') && !closed6.check(address, 'ipv6')
}
