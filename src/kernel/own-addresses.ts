import { BlockList, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'

/** Every address that this machine's interfaces have now. A machine gets and loses addresses while a program runs. */
export const ownAddresses = (): readonly string[] =>
  Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address))

/** Whether an address is one of this machine's own, in any spelling. Looked up each time. */
export function isOwnAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 0) return false
  const own = new BlockList()
  for (const one of ownAddresses()) own.addAddress(one, isIP(one) === 6 ? 'ipv6' : 'ipv4')
  return own.check(address, family === 6 ? 'ipv6' : 'ipv4')
}
