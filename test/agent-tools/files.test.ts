import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rightsOf } from '../../src/contract/permissions.ts'
import { localOwner, type Principal } from '../../src/contract/principal.ts'
import type { SecurityContext } from '../../src/contract/security-context.ts'
import { type Answer, callerOf, type TestApp } from '../support/app.ts'
import { namesFor, openWorkspaceApp, sh } from '../support/workspaces.ts'

let app: TestApp
const personal = 'personal-owner'
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const ask = (tool: string, args: object) => app.ask(tool, args)
const refused = (tool: string, args: object) => app.refusal(tool, args)
const write = (path: string, content: string) => ask('fs.write', { path, content })
const textOf = async (path: string) => (await ask('fs.read', { path }))['content']
const inWorkspace = (command: string) => sh(app, personal, command)
const resultOf = async (tool: string, pattern: string, path: string) =>
  ((await ask(tool, { pattern, path }))['result'] as string).split('\n')

describe('a personal workspace', () => {
  it('is made at the first use, once, however many come at once', async () => {
    expect(await namesFor(app)).toEqual([])
    await Promise.all(['a', 'b', 'c', 'd'].map((name) => write(`first/${name}`, name)))
    expect(await namesFor(app)).toEqual([personal])
    expect(await ask('fs.list', { path: 'first' })).toMatchObject({ path: '/workspace/first' })
    const made = (await app.log()).filter(({ tool }) => tool === 'workspace_create')
    expect(made).toHaveLength(1)
    expect(made[0]).toMatchObject({ outcome: 'ok', principal: { actor: 'owner' } })
  })

  it('is started again when it is needed', async () => {
    await app.ask('workspace_stop', { workspace_id: personal })
    expect(await textOf('first/a')).toBe('a')
  })

  it('is another one for another user, who needs the right to make it', async () => {
    const [one, reader] = [await app.keyCaller(), await app.keyCaller({ scopes: ['workspace:read'] })]
    await app.ask('fs.write', { path: 'mine', content: 'x' }, one)
    expect((await app.refusal('fs.read', { path: 'first/a' }, one)).code).toBe('ERR_FILE_NOT_FOUND')
    expect((await app.refusal('fs.list', { path: '.' }, reader)).code).toBe('ERR_PERMISSION_DENIED')
    const id = one.principal.keyId!
    expect(await namesFor(app, one)).toEqual([`personal-key-${id}`])
  })

  it('is never one that another user has put in its place', async () => {
    const [victim, thief] = [await app.keyCaller(), await app.keyCaller()]
    const name = `personal-key-${victim.principal.keyId}`
    expect((await app.refusal('workspace_create', { name }, thief)).code).toBe('ERR_INVALID_INPUT')
    // One that was made before such names were refused is not taken either.
    await app.ask('workspace_create', { name: 'bait' }, thief)
    app.behindItsBack((db) => db.prepare("UPDATE workspaces SET name = ? WHERE name = 'bait'").run(name))
    expect((await app.refusal('fs.write', { path: 'x', content: 'secret' }, victim)).code).toBe('ERR_ALREADY_EXISTS')
  })
})

describe('fs.read, fs.write, fs.list, fs.create_dir, fs.delete', () => {
  it('answer in the documented shapes', async () => {
    expect(await write('/workspace/src/./main.rs', 'fn größe() {}\n')).toEqual({
      status: 'success',
      path: '/workspace/src/main.rs',
      bytes_written: 16,
    })
    expect(await ask('fs.read', { path: 'src/main.rs' })).toEqual({
      status: 'success',
      path: '/workspace/src/main.rs',
      content: 'fn größe() {}\n',
      size_bytes: 16,
    })
    expect(await ask('fs.create_dir', { path: 'src/lib/deep' })).toEqual({
      status: 'success',
      path: '/workspace/src/lib/deep',
    })
    expect(await ask('fs.create.dir', { path: 'src/lib/deep' })).toMatchObject({ status: 'success' })
    await inWorkspace('cd /workspace/src && ln -s lib folder && ln -s main.rs file && ln -s nowhere dangling')
    expect((await ask('fs.list', { path: 'src' }))['entries']).toEqual([
      { name: 'dangling', file_type: 'file' },
      { name: 'file', file_type: 'file' },
      { name: 'folder', file_type: 'directory' },
      { name: 'lib', file_type: 'directory' },
      { name: 'main.rs', file_type: 'file' },
    ])
    expect((await refused('fs.delete', { path: 'src' })).message).toContain('recursive')
    expect(await ask('fs.delete', { path: 'src', recursive: true })).toEqual({
      status: 'success',
      path: '/workspace/src',
    })
    expect(await refused('fs.read', { path: 'src/main.rs' })).toMatchObject({
      code: 'ERR_FILE_NOT_FOUND',
      message: expect.stringMatching(/^NOT_FOUND: /),
      details: { violation: 'NOT_FOUND' },
    })
    expect((await refused('fs.delete', { path: '/workspace', recursive: true })).code).toBe('ERR_INVALID_INPUT')
  })

  it('name a missing argument as the document does', async () => {
    for (const args of [{ content: 'x' }, { path: null, content: 'x' }]) {
      expect(await refused('fs.write', args)).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        message: "Invalid tool arguments: required field 'path' is missing or null for tool 'fs.write'",
      })
    }
  })

  it('read at most 10 MiB, and that whole', async () => {
    await inWorkspace(
      "head -c 10485760 /dev/zero | tr '\\0' x > /workspace/large; cp /workspace/large /workspace/larger; echo >> /workspace/larger",
    )
    expect(((await ask('fs.read', { path: 'large' }))['content'] as string).length).toBe(10 * 1024 * 1024)
    expect((await refused('fs.read', { path: 'larger' })).code).toBe('ERR_TOO_LARGE')
    expect((await refused('fs.edit', { path: 'larger', target_content: 'y', replacement_content: '' })).code).toBe(
      'ERR_TOO_LARGE',
    )
    await inWorkspace('rm /workspace/large*; printf "a\\377" > /workspace/latin')
    expect((await refused('fs.read', { path: 'latin' })).code).toBe('ERR_NOT_TEXT')
  })

  it('say that the disk is full', async () => {
    await app.ask('workspace_create', { name: 'small', disk_gb: 1 })
    const small = await app.ask<Answer & { workspace_id: string }>('workspace_info', { workspace_id: 'small' })
    const limits = small['limits'] as { disk: { enforced: boolean } } | undefined
    const caller = callerOf({ ...localOwner, workspaceId: small.workspace_id })
    await app.ask('fs.write', { path: 'a', content: 'a' }, caller)
    if (limits?.disk.enforced !== true) return
    await sh(app, 'small', 'fallocate -l 1000M /workspace/fill; head -c 100M /dev/urandom > /workspace/rest; sync')
    expect(await app.refusal('fs.write', { path: 'b', content: 'b'.repeat(3_000_000) }, caller)).toMatchObject({
      code: 'ERR_DISK_FULL',
      details: { violation: 'QuotaExceeded' },
    })
    await app.ask('fs.delete', { path: 'fill' }, caller)
    expect(await app.ask('fs.read', { path: 'a' }, caller)).toMatchObject({ content: 'a' })
    await app.ask('fs.write', { path: 'b', content: 'b'.repeat(3_000_000) }, caller)
  })
})

describe('fs.edit and fs.multi_edit', () => {
  it('replace what occurs exactly once', async () => {
    await write('e', 'one two one three')
    expect(await ask('fs.edit', { path: 'e', target_content: 'two', replacement_content: '2' })).toEqual({
      status: 'success',
      path: '/workspace/e',
      message: 'File edited successfully',
    })
    for (const target_content of ['one', 'four']) {
      expect(await refused('fs.edit', { path: 'e', target_content, replacement_content: '' })).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        details: { field: 'target_content' },
      })
    }
    expect(await textOf('e')).toBe('one 2 one three')
    await write('o', 'aaa')
    expect((await refused('fs.edit', { path: 'o', target_content: 'aa', replacement_content: 'b' })).message).toContain(
      'more than once',
    )
  })

  it('make all replacements, each on what the one before left, or none', async () => {
    await write('m', 'a b')
    const edit = (target_content: string, replacement_content: string) => ({ target_content, replacement_content })
    expect(
      await ask('fs.multi_edit', { path: 'm', edits: [edit('a', 'bb'), edit('bb b', 'c'), edit('c', '$& c')] }),
    ).toEqual({
      status: 'success',
      path: '/workspace/m',
      applied: 3,
    })
    expect(await textOf('m')).toBe('$& c')
    expect(await refused('fs.multi_edit', { path: 'm', edits: [edit('c', 'd'), edit('c', 'e')] })).toMatchObject({
      details: { field: 'edits.1.target_content', matches: 'none' },
    })
    expect(await textOf('m')).toBe('$& c')
  })

  it('lose no change though they come at once, by whatever path and tool', async () => {
    await write('n', Array.from({ length: 30 }, (_, n) => `<${n}>`).join(''))
    await inWorkspace('ln -s n /workspace/n.link')
    await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        n % 3 === 2
          ? app.ask('file_edit', {
              workspace_id: personal,
              path: '/workspace/n',
              old_string: `<${n}>`,
              new_string: `[${n}]`,
            })
          : ask('fs.edit', {
              path: n % 3 === 0 ? 'n' : 'n.link',
              target_content: `<${n}>`,
              replacement_content: `[${n}]`,
            }),
      ),
    )
    expect(await textOf('n')).toBe(Array.from({ length: 30 }, (_, n) => `[${n}]`).join(''))
  })
})

describe('fs.grep and fs.glob', () => {
  beforeAll(async () => {
    await inWorkspace(`mkdir -p /workspace/s/sub/deep /workspace/s/.hidden && cd /workspace/s &&
      printf 'alpha\\nbeta 1\\n' > a.ts && printf 'beta 2\\r\\n' > sub/b.ts && printf 'beta 3\\n' > sub/deep/c.rs &&
      printf 'beta 4\\n' > .hidden/d && printf 'ignored\\n' > .gitignore && printf 'beta 5\\n' > ignored &&
      printf 'beta\\0' > binary && ln -s .. loop && ln -s /etc out && printf 'beta 6\\n' > "$(printf 'new\\nline:7:x')"`)
  })

  it('answer lines as path:line:content, as text too', async () => {
    expect(await resultOf('fs.grep', '^beta [0-9]$', '/workspace/s')).toEqual([
      '/workspace/s/.hidden/d:1:beta 4',
      '/workspace/s/a.ts:2:beta 1',
      '/workspace/s/ignored:1:beta 5',
      '/workspace/s/new',
      'line:7:x:1:beta 6',
      '/workspace/s/sub/deep/c.rs:1:beta 3',
    ])
    expect(await resultOf('fs.grep', 'beta 2', 's')).toEqual(['/workspace/s/sub/b.ts:1:beta 2'])
    expect(await resultOf('fs.grep', 'alpha', 's/a.ts')).toEqual(['/workspace/s/a.ts:1:alpha'])
    expect(await ask('fs.grep', { pattern: 'nowhere', path: 's' })).toEqual({ result: '', count: 0, truncated: false })
    const answer = await app.call('fs.grep', { pattern: 'alpha', path: 's' })
    expect(answer.content).toEqual([{ type: 'text', text: '/workspace/s/a.ts:1:alpha' }])
  })

  it.each([
    ['*.ts', ['a.ts']],
    ['**/*.ts', ['a.ts', 'sub/b.ts']],
    ['sub/**', ['sub/b.ts', 'sub/deep/c.rs']],
    ['**/deep/*', ['sub/deep/c.rs']],
    ['sub/*.rs', []],
    ['{a,sub/b}.ts', ['a.ts', 'sub/b.ts']],
    ['**/[bc].*', ['sub/b.ts', 'sub/deep/c.rs']],
    ['?.ts', ['a.ts']],
    ['.hidden/*', ['.hidden/d']],
    ['out/**', []],
    ['loop/**', []],
  ])('find by the pattern %s', async (pattern, files) => {
    expect(((await ask('fs.glob', { pattern, path: 's' }))['result'] as string).split('\n').filter(Boolean)).toEqual(
      files,
    )
  })

  it('stay bounded for hostile patterns and many matches', async () => {
    await inWorkspace(
      "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -n 20000 > /workspace/many; cd /workspace; mkdir h; head -c 1000000 /dev/zero | tr '\\0' a > h/line",
    )
    const found = await ask('fs.grep', { pattern: 'a', path: 'many' })
    expect(found).toMatchObject({ truncated: true, count: 2_000 })
    expect(await ask('fs.grep', { pattern: '(a+)+$', path: 'h' })).toMatchObject({ count: 1 })
    expect(await ask('fs.grep', { pattern: '(x+x+)+y', path: 'h' })).toMatchObject({ count: 0 })
    expect((await refused('fs.grep', { pattern: '((a{1000}){1000}){1000}', path: 'h' })).details['field']).toBe(
      'pattern',
    )
    expect(await refused('fs.grep', { pattern: '(?<=a)b', path: 'h' })).toMatchObject({ code: 'ERR_INVALID_INPUT' })
    expect(await refused('fs.grep', { pattern: '(', path: 'h' })).toMatchObject({ code: 'ERR_INVALID_INPUT' })
    expect(await ask('fs.grep', { pattern: '--pre=sh', path: 'h' })).toMatchObject({ count: 0 })
    expect(await ask('fs.glob', { pattern: `${'*a'.repeat(500)}b`, path: '.' })).toMatchObject({ count: 0 })
    for (const pattern of ['{a', '[z-a]', '[a', 'a\\']) {
      expect((await refused('fs.glob', { pattern, path: '.' })).details['field']).toBe('pattern')
    }
    expect((await refused('fs.grep', { pattern: 'a', path: 'none' })).code).toBe('ERR_FILE_NOT_FOUND')
  })
})

describe('fs.grep and fs.glob among other things than text', () => {
  beforeAll(async () => {
    await inWorkspace(`mkdir /workspace/t && cd /workspace/t && mkfifo pipe && printf 'x' > file && ln -s pipe link &&
      (echo beta 1; yes filler | head -c 300000; printf '\\0beta') > a && echo beta 2 > b && echo beta 3 > c`)
  })

  it('say nothing of a file that turns out not to be text but what was found before', async () => {
    const found = { count: 3, result: '/workspace/t/a:1:beta 1\n/workspace/t/b:1:beta 2\n/workspace/t/c:1:beta 3' }
    expect(await ask('fs.grep', { pattern: 'beta', path: 't' })).toMatchObject(found)
    const oneDeep = callerOf({ ...localOwner, securityContexts: [within('/workspace/t/*')] })
    expect(await app.ask('fs.grep', { pattern: 'beta', path: 't' }, oneDeep)).toMatchObject(found)
  })

  it('refuse to begin where there is nothing to search', async () => {
    for (const path of ['t/pipe', 't/link']) {
      expect(await refused('fs.grep', { pattern: 'x', path })).toMatchObject({
        code: 'ERR_FILE_REFUSED',
        details: { violation: 'PERMISSION_DENIED' },
      })
    }
    for (const path of ['t/pipe', 't/file']) {
      expect((await refused('fs.glob', { pattern: '**', path })).code).toBe('ERR_NOT_A_DIRECTORY')
    }
  })
})

const within = (...pathAllowlist: string[]): SecurityContext => ({
  name: 'narrow',
  description: '',
  capabilities: [{ toolPattern: 'fs.*', pathAllowlist }],
  denyList: [],
})

describe('attempts to get out', () => {
  const tools: [string, object][] = [
    ['fs.read', {}],
    ['fs.write', { content: 'x' }],
    ['fs.list', {}],
    ['fs.create_dir', {}],
    ['fs.create.dir', {}],
    ['fs.edit', { target_content: 'root', replacement_content: 'x' }],
    ['fs.multi_edit', { edits: [{ target_content: 'root', replacement_content: 'x' }] }],
    ['fs.grep', { pattern: 'root' }],
    ['fs.glob', { pattern: '**' }],
    ['fs.delete', { recursive: true }],
  ]
  beforeAll(() =>
    inWorkspace(
      'cd /workspace && ln -s /etc etc && ln -s / root && ln -s /etc/passwd passwd && ln -s /proc/self/root proc',
    ),
  )

  it.each(tools)('are refused by name: %s', async (tool, more) => {
    const violationOf = async (path: string) => {
      const failure = await refused(tool, { path, ...more })
      expect([path, failure.code]).toEqual([path, 'ERR_POLICY_VIOLATION'])
      return failure.details['violation']
    }
    for (const path of ['../etc/passwd', '/workspace/../etc/passwd', 'a/../../etc', '..']) {
      expect(await violationOf(path)).toBe('PathTraversalAttempt')
    }
    for (const path of [
      '/etc/passwd',
      '/workspace2/a',
      '/',
      '/proc/1/environ',
      'etc/passwd',
      'root/etc/passwd',
      'proc/etc/passwd',
    ]) {
      expect(await violationOf(path)).toBe('PathOutsideBoundary')
    }
    if (tool !== 'fs.delete') expect(await violationOf('passwd')).toBe('PathOutsideBoundary')
    expect((await refused(tool, { path: `/workspace/${'a'.repeat(4_090)}`, ...more })).code).toBe('ERR_INVALID_INPUT')
    expect((await inWorkspace('cat /etc/passwd')).stdout).toContain('root')
  })

  it('are held against the lists of the security contexts, where the path really leads', async () => {
    await inWorkspace('mkdir -p /workspace/a /workspace/b && echo b > /workspace/b/x && ln -s ../b /workspace/a/link')
    const { workspace_id } = await app.ask<{ workspace_id: string }>('workspace_info', { workspace_id: personal })
    const agent: Principal = {
      ...localOwner,
      kind: 'agent',
      ...rightsOf('member'),
      tier: 'user',
      actor: 'worker',
      workspaceId: workspace_id,
      securityContexts: [within('/workspace/a')],
    }
    const caller = callerOf(agent)
    await app.ask('fs.write', { path: 'a/x', content: 'a' }, caller)
    for (const path of ['b/x', 'a/link/x', '/workspace']) {
      expect(await app.refusal('fs.read', { path }, caller)).toMatchObject({
        code: 'ERR_POLICY_VIOLATION',
        details: { violation: 'PathOutsideBoundary' },
      })
    }
    expect((await app.refusal('fs.grep', { pattern: 'b', path: 'a/link' }, caller)).code).toBe('ERR_POLICY_VIOLATION')
    expect(await app.ask('fs.grep', { pattern: 'b', path: 'a' }, caller)).toMatchObject({ count: 0 })
    expect((await app.refusal('cmd.run', { command: 'ls' }, caller)).details['violation']).toBe('ToolNotAllowed')
    const wide = callerOf({ ...agent, securityContexts: [within('/')] })
    expect(await app.ask('fs.read', { path: '/etc/hostname' }, wide)).toMatchObject({ status: 'success' })
    const listed = (await app.app.host.list(caller)).map(({ name }) => name)
    expect(listed).toContain('fs.read')
    expect(listed).not.toContain('cmd.run')
    expect(listed).not.toContain('task_create')
  })
})

describe('the paths of git tools', () => {
  const tools = ['git_status', 'git_diff', 'git_commit', 'git_push', 'git_clone']
  const capabilities = tools.map((toolPattern) => ({ toolPattern, pathAllowlist: ['/workspace/a'] }))
  const contexts: SecurityContext[] = [{ name: 'git', description: '', capabilities, denyList: [] }]
  const caller = callerOf({ ...localOwner, securityContexts: contexts })
  it.each(tools)('are bounded too: %s', async (tool) => {
    const more = {
      ...(tool === 'git_commit' && { message: 'm' }),
      ...(tool === 'git_clone' && { url: '/workspace/a/b' }),
    }
    const outside = { workspace_id: personal, path: '/workspace/b', ...more }
    expect((await app.refusal(tool, outside, caller)).details).toMatchObject({ violation: 'PathOutsideBoundary' })
    const inside = await app.refusal(tool, { ...outside, path: '/workspace/a/none' }, caller)
    expect(inside.code).not.toBe('ERR_POLICY_VIOLATION')
  })

  it('are bounded if none is given', async () => {
    const refusal = await app.refusal('git_status', { workspace_id: personal }, caller)
    expect(refusal.details).toMatchObject({ violation: 'PathOutsideBoundary' })
  })
})
