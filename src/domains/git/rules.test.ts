import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppError } from '../../contract/app-error.ts'
import {
  branchName,
  cloneAddress,
  filePath,
  isBranchName,
  mergeMessage,
  personOf,
  remoteName,
  sourceBranch,
  workspacePath,
} from './rules.ts'

const refusalOf = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    if (error instanceof AppError) return error.code
    throw error
  }
}

/** Texts that look like options, addresses and names, and everything between. */
const hostile = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc
    .array(
      fc.constantFrom(
        '-',
        '--upload-pack=x',
        'ext::',
        'sh -c',
        'main',
        '/',
        '.',
        '..',
        '@',
        '@{',
        ':',
        '~',
        ' ',
        '\n',
        '.lock',
        'git',
        '//',
        'https',
        '%',
        '\\',
        'é',
      ),
      { maxLength: 6 },
    )
    .map((parts) => parts.join('')),
)

describe('names of branches', () => {
  it('are allowed only where git allows them', () => {
    fc.assert(
      fc.property(hostile, (name) => {
        if (!isBranchName(name)) return
        expect(execFileSync('git', ['check-ref-format', '--branch', name], { encoding: 'utf8' }).trim()).toBe(name)
      }),
      { numRuns: 60 },
    )
  })

  it.each(['main', 'feature/a-b_c.d', 'v1.2', 'é', '1'])('may be %s', (name) => {
    expect(branchName(name)).toBe(name)
  })

  it.each([
    '',
    '-b',
    '--force',
    'a..b',
    'a b',
    'a~1',
    'a:b',
    '@',
    'HEAD',
    '/a',
    'a/',
    'a//b',
    '.a',
    'a/.b',
    'a.lock',
    'a.lock/b',
    'a@{1}',
    'a\n',
    'a\0',
    'x'.repeat(201),
  ])('may not be %j', (name) => {
    expect(refusalOf(() => branchName(name))).toBe('ERR_INVALID_INPUT')
  })
})

describe('addresses to clone from', () => {
  it.each([
    ['https://example.org/a/b.git', { url: 'https://example.org/a/b.git' }],
    ['http://127.0.0.1:8080/x', { url: 'http://127.0.0.1:8080/x' }],
    ['HTTPS://example.org/x', { url: 'https://example.org/x' }],
    ['git://[::1]:9418/x', { url: 'git://[::1]:9418/x' }],
    ['ssh://git@example.org:22/x', { url: 'ssh://git@example.org:22/x' }],
    ['/workspace/repository', { url: '/workspace/repository' }],
    ['git@example.org:a/b.git', { url: 'git@example.org:a/b.git' }],
    ['https://u:p@example.org/x', { url: 'https://example.org/x', urlWithCredentials: 'https://u:p@example.org/x' }],
    ['https://tok@example.org/x', { url: 'https://example.org/x', urlWithCredentials: 'https://tok@example.org/x' }],
  ])('may be %s', (url, expected) => {
    expect(cloneAddress(url)).toEqual(expected)
  })

  it.each([
    '',
    '-u',
    '--upload-pack=touch x',
    'ext::sh -c touch% x',
    'fd::17',
    'file:///etc',
    '/etc/\n',
    '../x',
    'https://',
    'https://-oProxyCommand=x/y',
    'ssh://-oProxyCommand=x/y',
    'ssh://-l@host/y',
    'ssh://u:p@host/y',
    'git://u@host/y',
    '-x@host:path',
    'git@-host:path',
    'git@host:-path',
    'git@host::path',
    'git@ho st:path',
    'https://example.org/a\nb',
    'https://example.org\\@evil.org/x',
  ])('may not be %j', (url) => {
    expect(refusalOf(() => cloneAddress(url))).toBe('ERR_INVALID_INPUT')
  })

  it('never begin with a dash and keep no user of http', () => {
    fc.assert(
      fc.property(hostile, fc.constantFrom('', 'https://', 'ssh://', 'git@host:'), (text, scheme) => {
        const found = refusalOf(() => cloneAddress(`${scheme}${text}`))
        if (found === 'ERR_INVALID_INPUT') return
        expect((found as { url: string }).url).toMatch(
          /^(?:(?:https?|git):\/\/[^@/?#]+(?:[/?#].*)?|ssh:\/\/\w.*|\w[^@]*@\w.*|\/.*)$/s,
        )
      }),
    )
  })
})

describe('other values', () => {
  it('are paths inside the workspace', () => {
    expect(workspacePath(undefined)).toBe('/workspace')
    expect(workspacePath('//a///b/')).toBe('/a/b')
    expect(workspacePath('/')).toBe('/')
    for (const path of ['', 'a', '-C', '/a\0', '/a\n', `/${'x'.repeat(4096)}`]) {
      expect(refusalOf(() => workspacePath(path))).toBe('ERR_INVALID_INPUT')
    }
    for (const path of ['', '-x', 'a\0', 'x'.repeat(4097)])
      expect(refusalOf(() => filePath(path))).toBe('ERR_INVALID_INPUT')
  })

  it('are remotes by name, never by address', () => {
    expect(remoteName('origin')).toBe('origin')
    for (const name of ['-o', 'https://example.org/x', '../x', '/x', 'a b', 'ext::x', '']) {
      expect(refusalOf(() => remoteName(name))).toBe('ERR_INVALID_INPUT')
    }
  })

  it('are authors with both parts or none', () => {
    expect(personOf(undefined, undefined)).toBeUndefined()
    expect(personOf('Ünal', 'u@example.org')).toEqual({ name: 'Ünal', email: 'u@example.org' })
    for (const [name, email] of [
      ['a', undefined],
      [undefined, 'a'],
      ['a\nb', 'c'],
      ['a <b>', 'c'],
      ['...', 'c'],
      ['a', ''],
    ] as const) {
      expect(refusalOf(() => personOf(name, email))).toBe('ERR_INVALID_INPUT')
    }
  })

  it('make names and messages of merges', () => {
    expect(sourceBranch({ id: 'ws_1-2', name: 'worker-1' })).toBe('merge/worker-1')
    expect(sourceBranch({ id: 'ws_1-2', name: 'a..b' })).toBe('merge/ws12')
    expect(mergeMessage('w', 1, undefined)).toBe('Merge workspace w\n')
    expect(mergeMessage('w', 1, 'a\n\nb\n')).toBe('a\n\nb\n')
    expect(mergeMessage('w', 2, 'a\n\nb')).toBe('a (from w)\n\nb\n')
  })
})
