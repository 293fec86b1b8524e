import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { redact, redactAll } from './redact.ts'

const filler = (length: number): string => 'Ab3dEf6hIj9kLmN0pQr5tUvWx'.repeat(6).slice(0, length)
const hex = (length: number): string => '0123456789abcdef'.repeat(8).slice(0, length)

/** Shapes of tokens, put together here so that no scanner takes this file for a leak. */
const secrets: Readonly<Record<string, string>> = {
  'GitHub, personal': `ghp_${filler(36)}`,
  'GitHub, app': `ghs_${filler(36)}`,
  'GitHub, fine-grained': `github_pat_${filler(22)}_${filler(59)}`,
  GitLab: `glpat-${filler(20)}`,
  'GitLab, routable': `glpat-${filler(27)}.01.${filler(9)}`,
  'GitLab, job': `glcbt-64_${filler(20)}`,
  Bitbucket: `ATBB${filler(32)}`,
  Atlassian: `ATATT3${filler(40)}`,
  Castellan: `cst_0123abcd_${filler(43)}`,
  Anthropic: `sk-ant-api03-${filler(60)}`,
  OpenAI: `sk-proj-${filler(48)}`,
  Stripe: `sk_live_${filler(24)}`,
  npm: `npm_${filler(36)}`,
  PyPI: `pypi-${filler(60)}`,
  Docker: `dckr_pat_${filler(27)}`,
  'Hugging Face': `hf_${filler(34)}`,
  DigitalOcean: `dop_v1_${hex(64)}`,
  Slack: `xoxb-123456789012-${filler(24)}`,
  Google: `AIza${filler(35)}`,
  AWS: `AKIA${'ABCDEFGH23456789'}`,
  SendGrid: `SG.${filler(22)}.${filler(43)}`,
  'HashiCorp Vault': `hvs.${filler(40)}`,
  'web token': `eyJ${filler(20)}.eyJ${filler(40)}.${filler(43)}`,
}

describe('redaction', () => {
  it.each(Object.entries(secrets))('takes out a token of %s wherever it stands', (_kind, secret) => {
    for (const text of [
      secret,
      `-${secret}`,
      `+token = "${secret}"`,
      `fatal: '${secret}' failed`,
      `(${secret})`,
      `a=${secret}&b=1`,
    ]) {
      expect(redact(text)).not.toContain(secret.slice(-12))
      expect(redact(text)).toContain('[redacted]')
    }
  })

  it.each([
    ['https://ann:hunter2@example.org/x.git', 'https://[redacted]@example.org/x.git'],
    ['https://token@example.org/x.git', 'https://[redacted]@example.org/x.git'],
    ['https://a:p@ss@example.org:8443/x', 'https://[redacted]@example.org:8443/x'],
    ['postgres://u:p@db/x', 'postgres://[redacted]@db/x'],
    ['ssh://git@example.org/x.git', 'ssh://git@example.org/x.git'],
    ['git@example.org:x.git', 'git@example.org:x.git'],
    ['https://example.org/a@b', 'https://example.org/a@b'],
    ['https://example.org/x?access_token=abc&page=2', 'https://example.org/x?access_token=[redacted]&page=2'],
    ['> Authorization: Basic dXNlcjpwYXNz', '> Authorization: Basic [redacted]'],
    ['authorization: Bearer abc.def', 'authorization: Bearer [redacted]'],
    ['Authorization: Digest username="u", response="r"', 'Authorization: Digest [redacted]'],
    ['PRIVATE-TOKEN: abc', 'PRIVATE-TOKEN: [redacted]'],
    ['sent Bearer 0123456789abcdef', 'sent Bearer [redacted]'],
    ['Cookie: a=1; session=xyz', 'Cookie: [redacted]'],
    [`aws_secret_access_key = ${'a1B2'.repeat(10)}`, 'aws_secret_access_key = [redacted]'],
  ])('reads %s as %s', (text, expected) => {
    expect(redact(text)).toBe(expected)
  })

  it('takes out private keys, whole or cut off', () => {
    const begin = `-----BEGIN OPENSSH ${'PRIVATE'} KEY-----`
    const end = `-----END OPENSSH ${'PRIVATE'} KEY-----`
    expect(redact(`a\n+${begin}\n+abc\n+${end}\nb`)).toBe('a\n+[redacted]\nb')
    expect(redact(`a\n${begin}\nabc`)).toBe('a\n[redacted]')
  })

  it('goes through lists and objects', () => {
    expect(redactAll({ a: [`x ghp_${filler(36)}`], b: { c: 1, d: null } })).toEqual({
      a: ['x [redacted]'],
      b: { c: 1, d: null },
    })
  })

  it('leaves ids of commits, plain words and code alone', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[0-9a-f]{40}$/), (id) => {
        expect(redact(`commit ${id}\nindex ${id.slice(0, 7)}..${id.slice(7, 14)} 100644`)).toContain(id)
      }),
    )
    for (const text of ['the bearer of this', 'const token = readToken()', 'skipped 3', 'https://example.org/x.git']) {
      expect(redact(text)).toBe(text)
    }
  })

  it('changes nothing the second time', () => {
    const parts = fc.constantFrom(
      ...Object.values(secrets),
      'https://',
      'a:b@',
      'Authorization: ',
      'Bearer ',
      '\n',
      ' ',
      '-',
      'x',
      '?token=',
    )
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 12 }), (pieces) => {
        const once = redact(pieces.join(' '))
        expect(redact(once)).toBe(once)
      }),
    )
  })
})
