import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isPublicAddress } from './public-address.ts'

describe('isPublicAddress', () => {
  it.each([
    '1.1.1.1',
    '8.8.8.8',
    '93.184.216.34',
    '172.32.0.1',
    '100.128.0.1',
    '203.0.113.9',
    '2606:4700::1111',
    '2a00:1450:4001::8a',
  ])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })

  it.each([
    ...['0.0.0.0', '10.1.2.3', '100.64.0.1', '100.100.100.200', '127.0.0.1', '127.255.255.255', '169.254.169.254'],
    ...['172.16.0.1', '172.31.255.255', '192.0.0.192', '192.168.1.1', '198.18.0.1', '168.63.129.16'],
    ...['224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255'],
    ...['::', '::1', '::ffff:8.8.8.8', '::ffff:127.0.0.1', '::ffff:7f00:1', '::127.0.0.1', '64:ff9b::7f00:1'],
    ...['64:ff9b:1::1', 'fe80::1', 'fe80::1%lo', 'fec0::1', 'fd00:ec2::254', 'fc00::1', 'ff02::1', '100::1'],
    ...['2001:db8::1', '2001::1', '2002:7f00:1::', '3fff::1', '5f00::1'],
    ...['', 'localhost', '127.1', '2130706433', '[::1]', '1.1.1.1 '],
  ])('%s is not', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  it('sees through no IPv6 spelling of an IPv4 address', () => {
    const ranges = fc.constantFrom('::', '::ffff:', '64:ff9b::', '::ffff:0:')
    fc.assert(fc.property(ranges, fc.ipV4(), (prefix, address) => !isPublicAddress(`${prefix}${address}`)))
  })
})
