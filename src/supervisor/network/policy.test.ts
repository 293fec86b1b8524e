import { describe, expect, it } from 'vitest'
import { closedNetwork } from '../../domains/workspaces/backend.ts'
import { checkHostNetwork, checkNetworkSpec, needsLink, resolverText } from './policy.ts'

describe('what a network policy comes to', () => {
  it('needs a link to talk to others or to all of the internet, and none for named hosts and forwards', () => {
    expect(needsLink(closedNetwork)).toBe(false)
    for (const request of [
      { allowedDomains: ['example.org'] },
      { allowedDomains: ['example.org'], allowInternet: true },
      { forwards: [{ hostPort: 8080, guestPort: 80 }] },
    ]) {
      expect(needsLink({ ...closedNetwork, ...request }), JSON.stringify(request)).toBe(false)
    }
    for (const request of [
      { allowInternet: true },
      { allowInterVm: true },
      { allowedPorts: [80] },
      { peers: ['10.99.0.2'] },
    ]) {
      expect(needsLink({ ...closedNetwork, ...request }), JSON.stringify(request)).toBe(true)
    }
  })

  it('names a resolver to those that go out directly, and the way out to those with a list', () => {
    expect(resolverText({ ...closedNetwork, allowInternet: true })).toContain('nameserver 10.99.0.1\n')
    expect(resolverText({ ...closedNetwork, allowInternet: true, allowedDomains: ['example.org'] })).toContain(
      'nameserver 127.99.0.1\n',
    )
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
    const hostNetwork = { hostAddresses: ['192.0.2.2'], resolver: '192.0.2.3' }
    checkHostNetwork(hostNetwork)
    expect(() => checkHostNetwork({ ...hostNetwork, hostAddresses: ['fd00::2'] })).toThrow('not IPv4')
    expect(() => checkHostNetwork({ ...hostNetwork, resolver: '192.0.2.3, 10.0.0.1' })).toThrow('not IPv4')
  })
})
