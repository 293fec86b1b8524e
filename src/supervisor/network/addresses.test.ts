import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hubAddress, isWorkspaceAddress } from './addresses.ts'

describe('addresses', () => {
  it('knows those of workspaces, and that the hub is none', () => {
    const octet = fc.nat(255)
    const near = fc
      .tuple(fc.constantFrom('10.99', '10.98', '10.100', '11.99'), octet, octet)
      .map((parts) => parts.join('.'))
    fc.assert(
      fc.property(fc.oneof(near, fc.ipV4(), fc.ipV6(), fc.string()), (address) => {
        const looksSo = /^10\.99\.\d{1,3}\.\d{1,3}$/.test(address)
        expect(isWorkspaceAddress(address)).toBe(looksSo && address !== hubAddress)
      }),
    )
    expect(isWorkspaceAddress(hubAddress)).toBe(false)
    for (const wrong of ['10.99.0.02', '10.99.0', '10.99.0.256', '10.99.0.2/16', '::ffff:10.99.0.2']) {
      expect(isWorkspaceAddress(wrong)).toBe(false)
    }
  })
})
