import { describe, expect, it } from 'vitest'
import { closedNetwork } from '../../domains/workspaces/backend.ts'
import { checkNetworkSpec, checkSurroundings, needsNetwork, resolverText } from './policy.ts'

describe('what a network policy comes to', () => {
  it('needs a link for any wish, and none without', () => {
    expect(needsNetwork(closedNetwork)).toBe(false)
    for (const wish of [
      { allowInternet: true },
      { allowInterVm: true },
      { allowedPorts: [80] },
      { allowedDomains: ['example.org'] },
      { forwards: [{ hostPort: 8080, guestPort: 80 }] },
      { peers: ['10.99.0.2'] },
    ]) {
      expect(needsNetwork({ ...closedNetwork, ...wish }), JSON.stringify(wish)).toBe(true)
    }
  })

  it('names a resolver to those that go out directly', () => {
    expect(resolverText({ ...closedNetwork, allowInternet: true })).toContain('nameserver 10.99.0.1\n')
    expect(resolverText({ ...closedNetwork, allowInternet: true, allowedDomains: ['example.org'] })).toBe('')
    expect(resolverText({ ...closedNetwork, allowInterVm: true })).toBe('')
  })

  it('refuses what could not become a rule', () => {
    const forwards = [
      { hostPort: 8080, guestPort: 80 },
      { hostPort: 8080, guestPort: 81 },
    ]
    for (const wrong of [{ allowedPorts: [65_536] }, { peers: ['10.99.0.2 accept'] }, { forwards }]) {
      expect(() => checkNetworkSpec({ ...closedNetwork, ...wrong })).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_INPUT' }),
      )
    }
    const around = { hostAddresses: ['192.0.2.2'], resolver: '192.0.2.3' }
    checkSurroundings(around)
    expect(() => checkSurroundings({ ...around, hostAddresses: ['fd00::2'] })).toThrow('not IPv4')
    expect(() => checkSurroundings({ ...around, resolver: '192.0.2.3, 10.0.0.1' })).toThrow('not IPv4')
  })
})
