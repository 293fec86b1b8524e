import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { localOwner, type Principal } from '../../contract/principal.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import {
  checkDomain,
  checkEnv,
  checkHostPort,
  checkName,
  checkPorts,
  exitCodeOf,
  fileMode,
  identityOf,
  isUuid,
  quotaExcess,
} from './rules.ts'

const refused = expect.objectContaining({ code: 'ERR_INVALID_INPUT' })
const outcome = <T>(work: () => T): T | unknown => {
  try {
    return work()
  } catch (error) {
    return error
  }
}

describe('names', () => {
  it('are what a shell, a host name and a path can bear', () => {
    const names = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/).filter((name) => !isUuid(name))
    fc.assert(fc.property(names, (name) => checkName('name', name) === name))
    for (const bad of ['', '.x', '-x', 'a b', 'a/b', 'ü', 'x'.repeat(129), '..', 'a\n']) {
      expect(
        outcome(() => checkName('name', bad)),
        bad,
      ).toEqual(refused)
    }
  })

  it('never look like ids, and ids are version 4', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        const id = uuidOf(bytes)
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        expect(isUuid(id)).toBe(true)
        expect(outcome(() => checkName('name', id))).toEqual(refused)
      }),
    )
  })
})

describe('owners', () => {
  it('of different kinds never have the same identity', () => {
    const base = { ...localOwner, actor: 'ann' }
    const kinds: Principal[] = [
      base,
      { ...base, kind: 'key', keyId: 'ann' },
      { ...base, kind: 'user', user: 'ann' },
      { ...base, kind: 'agent', agent: 'ann' },
    ]
    expect(kinds.map(identityOf)).toEqual(['owner', 'key:ann', 'user:ann', 'agent:ann'])
  })
})

describe('what a caller may set', () => {
  it('refuses variables that choose programs, and too many bytes', () => {
    for (const name of ['PATH', 'IFS', 'ENV', 'BASH_ENV', 'LD_PRELOAD', 'LD_', '1A', 'A-B', '', 'A=B', 'É']) {
      expect(
        outcome(() => checkEnv('env', { [name]: 'x' })),
        name,
      ).toEqual(refused)
    }
    checkEnv('env', { A: '', _b: 'x', PATHS: 'x', ld_x: 'x' })
    expect(outcome(() => checkEnv('env', { A: 'x'.repeat(200_000) }))).toEqual(refused)
    const many = Object.fromEntries(Array.from({ length: 257 }, (_, index) => [`A${index}`, '']))
    expect(outcome(() => checkEnv('env', many))).toEqual(refused)
  })

  it('takes host names in any case and covers subdomains only by a star in front', () => {
    expect(checkDomain('d', 'Example.ORG.')).toBe('example.org')
    expect(checkDomain('d', '*.example.org')).toBe('*.example.org')
    for (const bad of ['org', '*', '*.', 'a.*.org', '1.2.3.4', '[::1]', 'a_b.org', 'a.org:80', '', '.', 'a..org']) {
      expect(
        outcome(() => checkDomain('d', bad)),
        bad,
      ).toEqual(refused)
    }
  })

  it('sorts ports, and keeps off the low ones of the host', () => {
    expect(checkPorts('p', [443, 80, 443])).toEqual([80, 443])
    for (const bad of [0, 65_536, 1.5, -1]) expect(outcome(() => checkPorts('p', [bad]))).toEqual(refused)
    const range = { first: 20_000, last: 20_001 }
    expect(checkHostPort(20_001, range)).toBe(20_001)
    for (const port of [19_999, 20_002]) expect(outcome(() => checkHostPort(port, range))).toEqual(refused)
  })

  it('reads file modes as people write them', () => {
    expect(['644', '0644', '0o644', '4755'].map(fileMode)).toEqual([0o644, 0o644, 0o644, 0o4755])
    for (const bad of ['64', '888', 'rwx', '0x1ff', '006440'])
      expect(
        outcome(() => fileMode(bad)),
        bad,
      ).toEqual(refused)
  })
})

describe('how a command ended', () => {
  it('is one number', () => {
    expect([
      exitCodeOf(0, null),
      exitCodeOf(7, null),
      exitCodeOf(null, 'SIGKILL'),
      exitCodeOf(null, 'SIGTERM'),
    ]).toEqual([0, 7, 137, 143])
    expect(exitCodeOf(null, 'SIGRTMIN+1')).toBeGreaterThanOrEqual(128)
  })
})

describe('a quota', () => {
  it('lets in exactly what fits', () => {
    const amount = fc.record({ workspaces: fc.nat(20), memoryMb: fc.nat(20), diskGb: fc.nat(20) })
    fc.assert(
      fc.property(amount, amount, amount, (used, wanted, quota) => {
        const fits = (['workspaces', 'memoryMb', 'diskGb'] as const).every(
          (key) => used[key] + wanted[key] <= quota[key],
        )
        expect(quotaExcess(used, wanted, quota) === undefined).toBe(fits)
      }),
    )
  })
})
