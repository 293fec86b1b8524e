import { BlockList } from 'node:net'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { isPublicAddress } from '../kernel/public-address.ts'
import { closedRanges } from './network/addresses.ts'

const closed = new BlockList()
for (const range of closedRanges) closed.addSubnet(range.split('/')[0]!, Number(range.split('/')[1]), 'ipv4')

const toNumber = (address: string): number => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const toAddress = (number: number): string => [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.')

const edges = closedRanges.flatMap((range) => {
  const [network = '', prefix = ''] = range.split('/')
  const first = toNumber(network)
  const last = first + 2 ** (32 - Number(prefix)) - 1
  return [first - 1, first, last, last + 1].filter((edge) => edge >= 0 && edge < 2 ** 32).map(toAddress)
})

it('is the same for a workspace with the whole internet and for the proxy', () => {
  for (const address of edges) expect(closed.check(address, 'ipv4'), address).toBe(!isPublicAddress(address))
  fc.assert(fc.property(fc.ipV4(), (address) => closed.check(address, 'ipv4') === !isPublicAddress(address)))
})
