import { describe, expect, it } from 'vitest'
import { limits } from '../contract/limits.ts'
import { networkOf } from '../kernel/address-network.ts'
import { createAddressLimit } from './address-limit.ts'

describe('requests without a credential', () => {
  const clockAt = (time: { ms: number }) => ({ nowMs: () => time.ms, monotonicMs: () => time.ms })

  it('are counted by network in IPv6, however the address is written', () => {
    const same = ['2001:db8::1', '2001:db8:0:0:1::2', '2001:0DB8:0000::ffff:9', '2001:db8:0:0:1:2:3:4']
    expect(new Set(same.map(networkOf))).toEqual(new Set(['2001:db8:0:0']))
    expect(networkOf('2001:db8:0:1::1')).toBe('2001:db8:0:1')
    expect(networkOf('::1')).toBe('0:0:0:0')
    expect(networkOf('fe80::1%eth0')).toBe('fe80:0:0:0')
    expect(networkOf('203.0.113.9')).toBe('203.0.113.9')
    expect(networkOf('::ffff:203.0.113.9')).toBe('203.0.113.9')
  })

  it('wait for the next minute when an address has had its share', () => {
    const time = { ms: 1_000_000 }
    const admit = createAddressLimit(clockAt(time) as never)
    for (let count = 0; count < limits.oauthRequestsPerMinuteMax; count++) admit('203.0.113.9')
    expect(() => admit('203.0.113.9')).toThrow('Wait a minute')
    admit('203.0.113.10')
    time.ms += 60_000
    admit('203.0.113.9')
  })

  it('of addresses that are known are answered when no new address is counted any more', () => {
    const admit = createAddressLimit(clockAt({ ms: 1_000_000 }) as never)
    for (let index = 0; index < limits.oauthAddressesMax; index++)
      admit(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`)
    expect(() => admit('203.0.113.9')).toThrow('Wait a minute')
    admit('10.0.0.1')
  })
})
