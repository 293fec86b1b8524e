import { describe, expect, it } from 'vitest'
import { AppError } from '../../contract/app-error.ts'
import { localOwner, type Principal } from '../../contract/principal.ts'
import { type Capability, type SecurityContext, toSubcommandAllowlist } from '../../contract/security-context.ts'
import { ruledNameOf } from '../../contract/tool-spellings.ts'
import {
  canEverAllow,
  createPolicyEvaluator,
  pathBoundaries,
  requireHost,
  responseBytesMax,
} from './policy-evaluator.ts'
import type { Governed } from './read-access-request.ts'
import { matchesDomain, matchesTool } from './rules.ts'
import { createContextRegistry, shippedContexts } from './shipped-contexts.ts'

const governed: Record<string, Governed> = {
  'fs.read': { paths: ['path'] },
  'fs.write': { paths: ['path'] },
  'fs.list': { paths: ['path'] },
  'fs.glob': { paths: ['path'] },
  'fs.grep': { paths: ['path'] },
  'fs.delete': { paths: ['path'] },
  'cmd.run': {
    command: 'command',
    args: 'args',
    paths: ['cwd'],
    opens: { read: 'fs.read', write: 'fs.write', folder: 'cwd', folderDefault: '/workspace' },
  },
  'web.fetch': { url: 'url' },
  exec_parallel: { command: 'commands', env: 'env' },
}
const context = (capabilities: Capability[], denyList: string[] = [], name = 'test'): SecurityContext => ({
  name,
  description: '',
  capabilities,
  denyList,
})
const as = (...securityContexts: SecurityContext[]): Principal => ({ ...localOwner, securityContexts })

function movable() {
  let nowMs = 0
  return {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    advance(ms: number) {
      nowMs += ms
    },
  }
}
const evaluator = createPolicyEvaluator({ clock: movable() })

function violationOf(principal: Principal, tool: string, input: object = {}, at = evaluator): string | undefined {
  try {
    at.admit({ principal, tool, governed: governed[tool], input: input as Record<string, unknown> })
    return undefined
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    expect(error.message).toMatch(/^[A-Z][A-Za-z]+: /)
    return error.details['violation'] as string
  }
}
const messageOf = (principal: Principal, tool: string, input: object = {}): string => {
  try {
    evaluator.admit({ principal, tool, governed: governed[tool], input: input as Record<string, unknown> })
    return ''
  } catch (error) {
    return (error as Error).message
  }
}

describe('patterns', () => {
  it.each([
    ['*', 'anything', true],
    ['fs.*', 'fs.read', true],
    ['fs.*', 'fsx', false],
    ['fs.*', 'fs', false],
    ['fs.*', 'fsx.read', false],
    ['fs.read', 'fs.read', true],
    ['fs.read', 'fs.readx', false],
    ['aegis.workflow.*', 'aegis.workflow.executions.list', true],
  ])('%s and %s: %s', (pattern, tool, expected) => {
    expect(matchesTool(pattern, tool)).toBe(expected)
  })

  it.each([
    ['example.com', 'example.com', true],
    ['example.com', 'EXAMPLE.com', true],
    ['example.com', 'a.example.com', true],
    ['example.com', 'example.com.', true],
    ['example.com', 'badexample.com', false],
    ['example.com', 'example.com.evil.org', false],
    ['*.x.org', 'a.x.org', true],
    ['*.x.org', 'x.org', false],
    ['*', 'x.org', true],
  ])('domain %s and %s: %s', (pattern, host, expected) => {
    expect(matchesDomain(pattern, host)).toBe(expected)
  })
})

describe('a context', () => {
  it('refuses by default, and first what it denies by name', () => {
    expect(violationOf(as(context([])), 'fs.read')).toBe('ToolNotAllowed')
    const denying = as(context([{ toolPattern: '*' }], ['fs.*']))
    expect(violationOf(denying, 'fs.read', { path: 'a' })).toBe('ToolExplicitlyDenied')
    for (const refusing of [denying, as(context([]))]) {
      expect(messageOf(refusing, 'fs.read', { path: 'a' })).toContain('PERMISSION_DENIED')
    }
    expect(messageOf(as(context([])), 'cmd.run', { command: 'ls' })).not.toContain('PERMISSION_DENIED')
    expect(violationOf(denying, 'fsx')).toBeUndefined()
    expect(violationOf(localOwner, 'fs.read', { path: '/etc' })).toBeUndefined()
  })

  it('must be joined by all others', () => {
    const [files, reading] = [context([{ toolPattern: 'fs.*' }]), context([{ toolPattern: 'fs.read' }], [], 'second')]
    expect(violationOf(as(files, reading), 'fs.read', { path: 'a' })).toBeUndefined()
    expect(messageOf(as(files, reading), 'fs.write', { path: 'a' })).toMatch(/'second'.*Allowed: fs\.read/)
  })

  it('says the most specific reason and what would be allowed', () => {
    const several = as(
      context([
        { toolPattern: 'cmd.run', subcommandAllowlist: { cargo: ['build', 'test'] } },
        { toolPattern: 'cmd.run', commandAllowlist: ['ls'] },
      ]),
    )
    expect(violationOf(several, 'cmd.run', { command: 'cargo', args: ['publish'] })).toBe('SubcommandNotAllowed')
    expect(messageOf(several, 'cmd.run', { command: 'cargo publish' })).toContain('Allowed: cargo build, cargo test.')
    expect(violationOf(several, 'cmd.run', { command: 'rm x' })).toBe('CommandNotAllowed')
    expect(messageOf(several, 'cmd.run', { command: 'rm x' })).toContain('Allowed: cargo, ls.')
    expect(violationOf(several, 'cmd.run', { command: 'ls -l' })).toBeUndefined()
  })

  it.each([
    ['/workspace/../etc/passwd', 'PathTraversalAttempt'],
    ['../x', 'PathTraversalAttempt'],
    ['src/./a.ts', undefined],
    ['/workspace2/a', 'PathOutsideBoundary'],
    ['/workspace', undefined],
    ['/', 'PathOutsideBoundary'],
    ['', undefined],
  ])('and the path %j: %s', (path, violation) => {
    const confined = as(context([{ toolPattern: 'fs.*', pathAllowlist: ['/workspace'] }]))
    expect(violationOf(confined, 'fs.read', { path })).toBe(violation)
  })

  it('knows one level, all levels and a list that allows nothing', () => {
    const one = as(context([{ toolPattern: 'fs.*', pathAllowlist: ['/workspace/a/*', '/data/**'] }]))
    expect(violationOf(one, 'fs.read', { path: 'a/b' })).toBeUndefined()
    expect(violationOf(one, 'fs.read', { path: 'a/b/c' })).toBe('PathOutsideBoundary')
    expect(violationOf(one, 'fs.read', { path: '/data/b/c' })).toBeUndefined()
    for (const tool of ['fs.list', 'fs.glob', 'fs.grep']) {
      expect(violationOf(one, tool, { path: 'a' })).toBeUndefined()
      expect(violationOf(one, tool, { path: '/workspace' })).toBe('PathOutsideBoundary')
    }
    expect(violationOf(one, 'fs.delete', { path: 'a' })).toBe('PathOutsideBoundary')
    const none = as(context([{ toolPattern: 'fs.*', pathAllowlist: [] }]))
    expect(violationOf(none, 'fs.read', { path: 'a' })).toBe('PathOutsideBoundary')
  })

  it.each([
    ['https://example.com/x', undefined],
    ['https://EXAMPLE.com:8443/x', undefined],
    ['https://a.example.com', undefined],
    ['https://badexample.com', 'DomainNotAllowed'],
    ['https://example.com.evil.org', 'DomainNotAllowed'],
    ['https://example.com@evil.org', 'DomainNotAllowed'],
    ['https://x.private.example.com', 'DomainNotAllowed'],
    ['nonsense', 'DomainNotAllowed'],
  ])('and the address %s: %s', (url, violation) => {
    const limits = { domainAllowlist: ['example.com'], domainDenylist: ['private.example.com'] }
    expect(violationOf(as(context([{ toolPattern: 'web.*', ...limits }])), 'web.fetch', { url })).toBe(violation)
  })
})

describe('commands', () => {
  const both: [string, SecurityContext][] = [
    ['a list', context([{ toolPattern: 'cmd.run', subcommandAllowlist: toSubcommandAllowlist(['git', 'ls']) }])],
    ['a map', context([{ toolPattern: 'cmd.run', subcommandAllowlist: toSubcommandAllowlist({ git: [], ls: [] }) }])],
    ['first words', context([{ toolPattern: 'cmd.run', commandAllowlist: ['git', 'ls'] }])],
  ]
  it.each(both)('in the form of %s', (_form, supplied) => {
    for (const command of ['git push', 'git status && ls', "g'it' log | ls"]) {
      expect(violationOf(as(supplied), 'cmd.run', { command })).toBeUndefined()
    }
    for (const command of [
      'git status; rm -rf x',
      'git status\nrm x',
      'git $(rm x)',
      'eval git',
      '/tmp/git x',
      './git x',
      'PATH=. git x',
      '$X status',
      'ls | sh',
      'toString',
      '__proto__',
    ]) {
      expect([command, violationOf(as(supplied), 'cmd.run', { command })]).toEqual([command, 'CommandNotAllowed'])
    }
    expect(violationOf(as(supplied), 'cmd.run', { command: 'git;rm', args: [] })).toBe('CommandNotAllowed')
    expect(violationOf(as(supplied), 'cmd.run', { command: 'git', args: ['; rm'] })).toBeUndefined()
  })

  it('are all checked where a tool takes several, and where it says nothing of them it is refused', () => {
    const listing = as(context([{ toolPattern: '*', commandAllowlist: ['ls'] }]))
    expect(violationOf(listing, 'exec_parallel', { commands: ['ls', 'ls -l'] })).toBeUndefined()
    expect(violationOf(listing, 'exec_parallel', { commands: ['ls', 'rm x'] })).toBe('CommandNotAllowed')
    const elsewhere = { commands: ['ls'], env: { PATH: '/workspace' } }
    expect(violationOf(listing, 'exec_parallel', elsewhere)).toBe('CommandNotAllowed')
    expect(messageOf(listing, 'exec_parallel', elsewhere)).toContain('it sets variables in env')
    expect(violationOf(listing, 'exec_parallel', { commands: ['ls'], env: {} })).toBeUndefined()
    expect(violationOf(as(context([{ toolPattern: '*' }])), 'exec_parallel', elsewhere)).toBeUndefined()
    const opaque = { principal: listing, tool: 'git_push', governed: { opaque: 'commands' } as const, input: {} }
    expect(() => evaluator.admit(opaque)).toThrow(/CommandNotAllowed/)
    expect(canEverAllow(listing, 'git_push', { opaque: 'commands' })).toBe(false)
  })

  it('with a map need a first argument that is known', () => {
    const git = as(context([{ toolPattern: 'cmd.run', subcommandAllowlist: { git: ['status'] } }]))
    for (const command of ['git', 'git $X', 'git "" status', 'git -c a status', 'git statu*']) {
      expect([command, violationOf(git, 'cmd.run', { command })]).toEqual([command, 'SubcommandNotAllowed'])
    }
    expect(violationOf(git, 'cmd.run', { command: 'git', args: [] })).toBe('SubcommandNotAllowed')
    expect(violationOf(git, 'cmd.run', { command: 'git "status" $X' })).toBeUndefined()
  })
})

describe('limits', () => {
  it('of a rate hold over every span, and give the next capability its turn', () => {
    const clock = movable()
    const at = createPolicyEvaluator({ clock })
    const slow = as(context([{ toolPattern: 'fs.read', rateLimit: { calls: 2, perSeconds: 10 } }]))
    const read = () => violationOf(slow, 'fs.read', { path: 'a' }, at)
    expect([read(), read(), read()]).toEqual([undefined, undefined, 'RateLimitExceeded'])
    clock.advance(9_999)
    expect(read()).toBe('RateLimitExceeded')
    clock.advance(1)
    expect([read(), read(), read()]).toEqual([undefined, undefined, 'RateLimitExceeded'])
    const other: Principal = { ...slow, kind: 'key', keyId: 'other' }
    expect(violationOf(other, 'fs.read', { path: 'a' }, at)).toBeUndefined()
  })

  it('of concurrency are given back when a call ends', () => {
    const one = as(context([{ toolPattern: '*', maxConcurrent: 1 }]))
    const ask = () => evaluator.admit({ principal: one, tool: 'cmd.run', governed: undefined, input: {} })
    const release = ask()
    expect(ask).toThrow(/ConcurrentExecLimitExceeded/)
    release!()
    ask()!()
  })

  it('of an answer are the least of what the contexts say', () => {
    const small = context([{ toolPattern: 'fs.*', maxResponseBytes: 10 }])
    const large = context([{ toolPattern: '*', maxResponseBytes: 20 }])
    expect(responseBytesMax(as(large, small), 'fs.read')).toBe(10)
    expect(responseBytesMax(as(large), 'fs.read')).toBe(20)
    expect(responseBytesMax(localOwner, 'fs.read')).toBeUndefined()
  })
})

describe('what services ask', () => {
  it('is where paths may lead, and which hosts may be reached on the way', () => {
    const principal = as(
      context([
        { toolPattern: 'fs.*', pathAllowlist: ['/workspace'] },
        { toolPattern: 'web.*', domainAllowlist: ['a.org'] },
      ]),
      context([{ toolPattern: '*' }], [], 'free'),
    )
    expect(pathBoundaries(principal, 'fs.read')).toEqual([['/workspace']])
    expect(() => requireHost(principal, 'web.fetch', 'b.a.org')).not.toThrow()
    expect(() => requireHost(principal, 'web.fetch', 'b.org')).toThrow(/DomainNotAllowed.*Allowed: a\.org/)
  })

  it('is which tools can never be allowed', () => {
    const principal = as(
      context([{ toolPattern: 'fs.read', pathAllowlist: [] }, { toolPattern: 'web.*' }], ['web.search']),
    )
    const visible = (tool: string) => canEverAllow(principal, tool, governed[tool])
    expect(['fs.read', 'fs.write', 'web.fetch', 'web.search'].map(visible)).toEqual([false, false, true, false])
  })
})

describe('the shipped contexts', () => {
  it('are the three tiers', () => {
    const allows = (name: string, tool: string) =>
      canEverAllow(as(createContextRegistry([]).find(name)!), tool, governed[tool])
    const tools = [
      'fs.read',
      'cmd.run',
      'aegis.task.execute',
      'aegis.agent.create',
      'aegis.system.info',
      'api_key_create',
    ]
    const rows = shippedContexts.map(({ name }) => [name, tools.map((tool) => allows(name, tool))])
    const user = [true, true, true, false, false, false]
    expect(Object.fromEntries(rows)).toEqual({
      default: user,
      'aegis-system-agent-runtime': [true, true, true, true, false, false],
      'aegis-system-operator': [true, true, true, true, true, true],
      'zaru-free': user,
      'zaru-pro': user,
      'zaru-business': user,
      'zaru-enterprise': user,
    })
  })

  it('can be replaced and joined by others', () => {
    const mine = context([], [], 'default')
    const registry = createContextRegistry([mine, context([], [], 'mine')])
    expect(registry.find('default')).toBe(mine)
    expect(registry.names).toContain('mine')
    expect(registry.find('none')).toBeUndefined()
  })
})

describe('what a shell opens for a command', () => {
  const echo: Capability = { toolPattern: 'cmd.run', commandAllowlist: ['echo', 'cat', 'cd'] }
  const files: Capability = { toolPattern: 'fs.*', pathAllowlist: ['/workspace/out'] }
  const run = (principal: Principal, command: string, more: object = {}) =>
    violationOf(principal, 'cmd.run', { command, ...more })

  it.each([
    ['echo a > /workspace/out/x', undefined],
    ['echo a > out/x', undefined],
    ['echo a >> out/x 2>&1', undefined],
    ['echo a > /dev/null 2> /dev/null', undefined],
    ['cat < out/x', undefined],
    ['echo a > x', 'PathOutsideBoundary'],
    ['echo a > /etc/passwd', 'PathOutsideBoundary'],
    ['echo a >| x', 'PathOutsideBoundary'],
    ['echo a &> x', 'PathOutsideBoundary'],
    ['echo a >& x', 'PathOutsideBoundary'],
    ['echo a <> x', 'PathOutsideBoundary'],
    ['echo a 2> x', 'PathOutsideBoundary'],
    ['> x echo a', 'PathOutsideBoundary'],
    ['cat < /etc/passwd', 'PathOutsideBoundary'],
    ['echo a > $HOME/x', 'PathOutsideBoundary'],
    ['cd out; echo a > x', 'PathOutsideBoundary'],
    ['cd /; echo a > /workspace/out/x', undefined],
    ['echo a > out/../x', 'PathTraversalAttempt'],
    ['cat << EOF\nx\nEOF', 'CommandNotAllowed'],
    ['echo a > >(cat)', 'CommandNotAllowed'],
    ['echo `cat`', 'CommandNotAllowed'],
  ])('beside a list of commands, as the tools for files may: %s', (command, expected) => {
    expect(run(as(context([echo, files])), command)).toBe(expected)
  })

  it('is in the folder where the command runs', () => {
    const principal = as(context([echo, files]))
    expect(run(principal, 'echo a > x', { cwd: '/workspace/out' })).toBeUndefined()
    expect(run(principal, 'echo a > out/x', { cwd: '/workspace/other' })).toBe('PathOutsideBoundary')
  })

  it('is nothing where no tool may write files, and the tool is named', () => {
    expect(run(as(context([echo])), 'echo a > x')).toBe('PathOutsideBoundary')
    expect(messageOf(as(context([echo])), 'cmd.run', { command: 'echo a > x' })).toContain(
      "'fs.write' is not allowed there",
    )
    expect(run(as(context([echo, files], ['fs.write'])), 'echo a > out/x')).toBe('PathOutsideBoundary')
  })

  it('is judged by the paths of the capability itself where it has some', () => {
    const principal = as(context([{ toolPattern: 'cmd.run', pathAllowlist: ['/workspace'] }]))
    expect(run(principal, 'anything > x')).toBeUndefined()
    expect(run(principal, 'anything > /etc/x')).toBe('PathOutsideBoundary')
    expect(run(principal, 'anything > $(where)')).toBe('PathOutsideBoundary')
  })

  it('is free where there is no list, but for a closed path', () => {
    expect(run(as(context([{ toolPattern: 'cmd.run' }])), 'echo a > /etc/x')).toBeUndefined()
    const closed = as(context([{ toolPattern: 'cmd.run', pathDenylist: ['/workspace/check'] }]))
    expect(run(closed, 'echo a > x')).toBeUndefined()
    expect(run(closed, 'echo a > check')).toBe('PathOutsideBoundary')
    expect(run(closed, 'cat < check')).toBeUndefined()
  })

  it('leaves a closed path also when a folder above it would go', () => {
    const closed = as(context([{ toolPattern: 'fs.*', pathDenylist: ['/workspace/d/check'] }]))
    expect(violationOf(closed, 'fs.write', { path: '/workspace/d/check' })).toBe('PathOutsideBoundary')
    expect(violationOf(closed, 'fs.delete', { path: '/workspace/d' })).toBe('PathOutsideBoundary')
    expect(violationOf(closed, 'fs.write', { path: '/workspace/d/other' })).toBeUndefined()
  })
})

it('knows a tool by all of its names', () => {
  const deny = (name: string) => as(context([{ toolPattern: '*' }], [name]))
  for (const one of ['aegis.execute', 'fs.create.dir']) {
    const other = ruledNameOf(one)
    const denied = [violationOf(deny(one), other), violationOf(deny(other), one)]
    expect(denied).toEqual(Array(2).fill('ToolExplicitlyDenied'))
    expect(violationOf(as(context([{ toolPattern: one }])), other)).toBeUndefined()
  }
  const paced = as(context([{ toolPattern: 'aegis.execute.intent', rateLimit: { calls: 1, perSeconds: 60 } }]))
  const at = createPolicyEvaluator({ clock: movable() })
  expect(violationOf(paced, 'aegis.execute', {}, at)).toBeUndefined()
  expect(violationOf(paced, 'aegis.execute.intent', {}, at)).toBe('RateLimitExceeded')
})
