import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppError } from '../../contract/app-error.ts'
import { type EgressPolicy, readEgressPolicy } from './egress-policy.ts'
import { readHost, readTarget } from './target.ts'

const rulesFor = (...domains: readonly string[]) => readEgressPolicy({ domains, credentials: [] })
const target = (text: string) => readTarget(text, 443)!

describe('readHost', () => {
  it.each([
    ['Example.ORG', 'example.org'],
    ['example.org.', 'example.org'],
    ['xn--mller-kva.de', 'xn--mller-kva.de'],
    ['_dmarc.example.org', '_dmarc.example.org'],
    ['93.184.216.34', '93.184.216.34'],
    ['[2606:2800:0220:0001:0248:1893:25c8:1946]', '2606:2800:220:1:248:1893:25c8:1946'],
    ['[::FFFF:127.0.0.1]', '::ffff:7f00:1'],
    ['localhost', 'localhost'],
  ])('reads %s as %s', (text, host) => {
    expect(readHost(text)).toBe(host)
  })

  it.each([
    '',
    '.',
    'example..org',
    'example.org..',
    '-a.example.org',
    'müller.de',
    'ex ample.org',
    'a/b',
    'user@example.org',
    '127.1',
    '2130706433',
    '0x7f000001',
    '127.0.0.0x1',
    '01.2.3.4',
    '::1',
    '[::1%lo]',
    '[127.0.0.1]',
    'a'.repeat(64),
    `${'a.'.repeat(127)}ab`,
    // The Kelvin sign, whose lower case is an ASCII letter.
    '\u212a.example.org',
  ])('finds no host in %j', (text) => {
    expect(readHost(text)).toBeUndefined()
  })
})

describe('readEgressPolicy', () => {
  it('takes an exact name for that name only', () => {
    const rules = rulesFor('Example.org.')
    expect(rules.allows(target('example.org'))).toBe(true)
    expect(rules.allows(target('example.org:80'))).toBe(true)
    for (const other of ['www.example.org', 'notexample.org', 'org', 'example.org.evil.test', 'example.org:8443']) {
      expect(rules.allows(target(other)), other).toBe(false)
    }
  })

  it('takes a wildcard for everything below a name, at any depth, and not for the name', () => {
    const rules = rulesFor('*.example.org')
    for (const name of ['a.example.org', 'a.b.c.example.org']) expect(rules.allows(target(name)), name).toBe(true)
    for (const other of ['example.org', 'notexample.org', 'a.example.com', 'a.example.org:22']) {
      expect(rules.allows(target(other)), other).toBe(false)
    }
  })

  it('takes a port for that port only', () => {
    const rules = rulesFor('example.org:8443', '*.example.net:81', '[2606:2800::1]:8080')
    expect(rules.allows(target('example.org:8443'))).toBe(true)
    expect(rules.allows(target('example.org:443'))).toBe(false)
    expect(rules.allows(target('a.example.net:81'))).toBe(true)
    expect(rules.allows(target('a.example.net:80'))).toBe(false)
    expect(rules.allows(target('[2606:2800:0::1]:8080'))).toBe(true)
  })

  it('covers exactly the names that end in a wildcard’s name, label by label', () => {
    const label = fc.stringMatching(/^[a-z][a-z0-9]{0,4}$/)
    const name = fc.array(label, { minLength: 1, maxLength: 5 })
    fc.assert(
      fc.property(name, name, (domain, candidate) => {
        const isBelow =
          candidate.length > domain.length &&
          domain.every((part, index) => part === candidate.slice(-domain.length)[index])
        const rules = rulesFor(`*.${domain.join('.')}`)
        expect(rules.allows({ host: candidate.join('.'), port: 443 })).toBe(isBelow)
        expect(rules.allows({ host: [...candidate, ...domain].join('.'), port: 443 })).toBe(true)
      }),
    )
  })

  it('gives credentials to an exact host, at 80 and 443 or at the port it names', () => {
    const rules = readEgressPolicy({
      domains: ['*.example.org'],
      credentials: [
        { host: 'API.example.org', header: 'Authorization', value: 'Bearer a' },
        { host: 'api.example.org:8443', header: 'X-Key', value: 'b' },
      ],
    })
    expect(rules.credentialsOf(target('api.example.org'))).toEqual([{ name: 'Authorization', value: 'Bearer a' }])
    expect(rules.credentialsOf(target('api.example.org:8443'))).toEqual([{ name: 'X-Key', value: 'b' }])
    for (const other of ['sub.api.example.org', 'example.org', 'api.example.org:81']) {
      expect(rules.credentialsOf(target(other)), other).toEqual([])
    }
  })

  const base: EgressPolicy = { domains: ['example.org'], credentials: [] }
  const credential = { host: 'example.org', header: 'X-Key', value: 'v' }
  it.each<readonly [string, EgressPolicy, RegExp]>([
    ['a star alone', { ...base, domains: ['*'] }, /domains\[0\]/],
    ['a star inside', { ...base, domains: ['ok.org', 'a.*.org'] }, /domains\[1\]/],
    ['an address of a page', { ...base, domains: ['https://example.org'] }, /domains\[0\]/],
    ['letters outside ASCII', { ...base, domains: ['müller.de'] }, /xn--/],
    ['a port that is none', { ...base, domains: ['example.org:0'] }, /domains\[0\]/],
    [
      'a wildcard for a secret',
      { ...base, credentials: [{ ...credential, host: '*.example.org' }] },
      /credentials\[0\]\.host/,
    ],
    ['a header name with a space', { ...base, credentials: [{ ...credential, header: 'X Key' }] }, /credentials\[0\]/],
    [
      'a second header in the value',
      { ...base, credentials: [{ ...credential, value: 'a\r\nX: b' }] },
      /credentials\[0\]/,
    ],
    [
      'a header that frames',
      { ...base, credentials: [{ ...credential, header: 'Content-Length' }] },
      /header must not/,
    ],
    ['an empty secret', { ...base, credentials: [{ ...credential, value: '' }] }, /value/],
    ['leave without a port', { ...base, allowPrivate: ['example.org'] }, /allowPrivate\[0\] must be host:port/],
  ])('refuses %s, and names the field but not the secret', (_, policy, message) => {
    const read = () => readEgressPolicy(policy)
    expect(read).toThrow(AppError)
    expect(read).toThrow(message)
  })
})
