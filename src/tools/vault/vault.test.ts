import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Answer, openTestApp, type TestApp } from '../../../test/support/app.ts'
import { limits } from '../../contract/limits.ts'
import { installFaultPlan } from '../../kernel/fault.ts'

let app: TestApp
beforeEach(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterEach(async () => {
  installFaultPlan(undefined)
  expect(app.errors).toEqual([])
  await app[Symbol.asyncDispose]()
})

type Args = Readonly<Record<string, unknown>>
const vault = (action: string, args: Args = {}) => app.ask('vault', { action, ...args })
const refused = (action: string, args: Args = {}) => app.refusal('vault', { action, ...args })
const codeOf = async (action: string, args: Args = {}) => (await refused(action, args)).code
const write = (path: string, content: string) => vault('write', { path, content })
const onDisk = (path: string): string => readFileSync(join(app.dataDir, 'vault', path), 'utf8')
function plant(path: string, content: string | Uint8Array): void {
  const whole = join(app.dataDir, 'vault', path)
  mkdirSync(dirname(whole), { recursive: true })
  writeFileSync(whole, content)
}

describe('notes', () => {
  it('are written, read and found in the folder as they are', async () => {
    const content = '---\ntitle: Plan\n---\nFirst #idea\r\n'
    expect(await write('work/plan.md', content)).toEqual({
      action: 'write',
      path: 'work/plan.md',
      mode: 'overwrite',
      created: true,
      size_bytes: Buffer.byteLength(content),
    })
    expect(onDisk('work/plan.md')).toBe(content)
    const plain = {
      action: 'read',
      path: 'work/plan.md',
      content,
      frontmatter: { title: 'Plan' },
      frontmatter_error: null,
    }
    expect(await vault('read', { path: 'work/plan.md' })).toEqual(plain)
    expect(await vault('read', { path: 'work/plan.md', format: 'json' })).toEqual({
      ...plain,
      body: 'First #idea\r\n',
      tags: ['idea'],
    })
    expect(await write('work/plan.md', 'new')).toMatchObject({ created: false, size_bytes: 3 })
  })

  it('grow at both ends, and front matter stays at the top', async () => {
    await write('n.md', '---\na: 1\n---\nmiddle\n')
    await vault('write', { path: 'n.md', content: 'end', mode: 'append' })
    await vault('write', { path: 'n.md', content: 'begin\n', mode: 'prepend' })
    expect(onDisk('n.md')).toBe('---\na: 1\n---\nbegin\nmiddle\nend')
    await vault('write', { path: 'new.md', content: 'x', mode: 'prepend' })
    expect(await vault('write', { path: 'new.md', content: 'y', mode: 'append' })).toMatchObject({ size_bytes: 2 })
    plant('broken.md', '---\na: [\n---')
    await vault('write', { path: 'broken.md', content: 'x', mode: 'prepend' })
    expect(onDisk('broken.md')).toBe('---\na: [\n---\nx')
  })

  it('are moved and deleted for good, and only when it is meant', async () => {
    await write('a.md', 'a')
    await write('b.md', 'b')
    expect(await refused('move', { path: 'a.md', new_path: 'b.md' })).toMatchObject({ code: 'ERR_ALREADY_EXISTS' })
    expect(await vault('move', { path: 'a.md', new_path: 'x/y.md' })).toEqual({
      ...{ action: 'move', moved: true, from: 'a.md', to: 'x/y.md', overwritten: false },
    })
    expect(await vault('move', { path: 'x/y.md', new_path: 'b.md', overwrite: true })).toMatchObject({
      overwritten: true,
    })
    expect(onDisk('b.md')).toBe('a')
    expect(await codeOf('move', { path: 'b.md', new_path: 'b.md' })).toBe('ERR_INVALID_INPUT')
    expect(await codeOf('move', { path: 'none.md', new_path: 'c.md' })).toBe('ERR_NOTE_NOT_FOUND')
    expect(await codeOf('delete', { path: 'b.md', confirm: false })).toBe('ERR_INVALID_INPUT')
    expect(await codeOf('delete', { path: 'b.md' })).toBe('ERR_INVALID_INPUT')
    expect(await vault('delete', { path: 'b.md', confirm: true })).toEqual({
      action: 'delete',
      path: 'b.md',
      deleted: true,
    })
    expect(await codeOf('delete', { path: 'b.md', confirm: true })).toBe('ERR_NOTE_NOT_FOUND')
  })

  it('are read several at once, each with its own answer', async () => {
    await write('a.md', '---\nx: 1\n---\na')
    plant('raw.md', Buffer.of(0xff, 0xfe))
    const paths = ['a.md', 'none.md', '../a.md', 'raw.md', 'a.md']
    const { notes } = await app.ask<{ notes: Answer[] }>('vault', { action: 'batch_read', paths })
    expect(notes.map(({ path, error }) => [path, (error as Answer | null)?.['code'] ?? null])).toEqual([
      ['a.md', null],
      ['none.md', 'ERR_NOTE_NOT_FOUND'],
      ['../a.md', 'ERR_INVALID_INPUT'],
      ['raw.md', 'ERR_INVALID_INPUT'],
      ['a.md', null],
    ])
    expect(notes[0]).toEqual({ path: 'a.md', content: '---\nx: 1\n---\na', frontmatter: { x: 1 }, error: null })
    const bare = { paths: ['a.md'], include_content: false, include_frontmatter: false }
    expect(await vault('batch_read', bare)).toMatchObject({
      notes: [{ content: null, frontmatter: null, error: null }],
    })
    expect(await codeOf('batch_read', { paths: Array(11).fill('a.md') })).toBe('ERR_INVALID_INPUT')
    plant('big.md', 'x'.repeat(limits.vaultBatchBytesMax - 10))
    expect(await vault('batch_read', { paths: ['big.md', 'a.md', 'big.md'] })).toMatchObject({
      notes: [{ error: null }, { error: { code: 'ERR_TOO_LARGE' } }, { error: { code: 'ERR_TOO_LARGE' } }],
    })
  })

  it('of more than ten MiB are neither written nor read, and one call carries what the schema says', async () => {
    const part = 'x'.repeat(limits.vaultTextCharsMax)
    await write('long.md', part)
    await vault('write', { path: 'long.md', content: part, mode: 'append' })
    expect(await codeOf('write', { path: 'long.md', content: `${part}x` })).toBe('ERR_INVALID_INPUT')
    expect(limits.messageBytesMax - limits.vaultTextCharsMax).toBeGreaterThan(limits.metadataBytesMax)
    plant('large.md', Buffer.alloc(limits.vaultNoteBytesMax, 'x'))
    expect(await codeOf('write', { path: 'large.md', content: 'x', mode: 'append' })).toBe('ERR_TOO_LARGE')
    plant('larger.md', Buffer.alloc(limits.vaultNoteBytesMax + 1, 'x'))
    expect(await codeOf('read', { path: 'larger.md' })).toBe('ERR_TOO_LARGE')
    expect(await codeOf('replace', { path: 'larger.md', old_string: 'x', new_string: '' })).toBe('ERR_TOO_LARGE')
  })
})

describe('front matter and tags', () => {
  it('are changed in place', async () => {
    await write('n.md', '---\n# mine\ntitle: A # b\n---\nText #inline\n')
    const set = { path: 'n.md', frontmatter_action: 'set' }
    expect(await vault('frontmatter', { ...set, key: 'title', value: 'B' })).toMatchObject({
      changed: true,
      key: 'title',
    })
    expect(await vault('frontmatter', { ...set, key: 'title', value: 'B' })).toMatchObject({ changed: false })
    await vault('frontmatter', { ...set, key: 'done', value: null })
    await vault('tags', { path: 'n.md', tags_action: 'add', tag: '#new' })
    expect(onDisk('n.md')).toBe('---\n# mine\ntitle: B # b\ndone: null\ntags:\n  - new\n---\nText #inline\n')
    expect(await vault('frontmatter', { path: 'n.md', frontmatter_action: 'get' })).toMatchObject({
      frontmatter: { title: 'B', done: null, tags: ['new'] },
    })
    const get = { path: 'n.md', frontmatter_action: 'get' }
    expect(await vault('frontmatter', { ...get, key: 'title' })).toMatchObject({ frontmatter: { title: 'B' } })
    expect(await vault('frontmatter', { ...get, key: 'none' })).toMatchObject({ frontmatter: {} })
    expect(await vault('tags', { path: 'n.md', tags_action: 'list' })).toMatchObject({ tags: ['new', 'inline'] })
    expect(await vault('tags', { path: 'n.md', tags_action: 'remove', tag: 'new' })).toEqual({
      ...{ action: 'tags', path: 'n.md', tags: ['inline'], changed: true },
    })
    const inline = await app.call('vault', { action: 'tags', path: 'n.md', tags_action: 'remove', tag: 'inline' })
    expect(JSON.stringify(inline.content)).toContain('occurs in the text')
    await vault('frontmatter', { path: 'n.md', frontmatter_action: 'delete', key: 'done' })
    await vault('frontmatter', { path: 'n.md', frontmatter_action: 'delete', key: 'title' })
    expect(onDisk('n.md')).toBe('---\n# mine\n---\nText #inline\n')
  })

  it('that do not parse are shown as broken and never rewritten', async () => {
    const broken = '---\na: [1\nb: "2\n---\nText\n'
    plant('n.md', broken)
    expect(await vault('read', { path: 'n.md' })).toMatchObject({
      content: broken,
      frontmatter: null,
      frontmatter_error: expect.stringContaining('not valid YAML'),
    })
    for (const args of [
      { frontmatter_action: 'set', key: 'c', value: 1 },
      { frontmatter_action: 'delete', key: 'a' },
    ]) {
      expect(await codeOf('frontmatter', { path: 'n.md', ...args })).toBe('ERR_FRONTMATTER_INVALID')
    }
    expect(await codeOf('tags', { path: 'n.md', tags_action: 'add', tag: 'x' })).toBe('ERR_FRONTMATTER_INVALID')
    expect(onDisk('n.md')).toBe(broken)
  })

  it('ask for what they need', async () => {
    await write('n.md', 'x')
    const note = { path: 'n.md' }
    expect(await refused('frontmatter', { ...note, frontmatter_action: 'set', value: 1 })).toMatchObject({
      details: { field: 'key' },
    })
    expect(await refused('frontmatter', { ...note, frontmatter_action: 'set', key: 'a' })).toMatchObject({
      details: { field: 'value' },
    })
    expect(
      await refused('frontmatter', { ...note, frontmatter_action: 'set', key: '__proto__', value: 1 }),
    ).toMatchObject({ details: { field: 'key' } })
    expect(await refused('tags', { ...note, tags_action: 'add' })).toMatchObject({ details: { field: 'tag' } })
    expect(await refused('tags', { ...note, tags_action: 'add', tag: 'two words' })).toMatchObject({
      details: { field: 'tag' },
    })
    expect(await vault('frontmatter', { ...note, frontmatter_action: 'get' })).toMatchObject({ frontmatter: null })
    expect(onDisk('n.md')).toBe('x')
  })
})

describe('looking over the vault', () => {
  beforeEach(async () => {
    await write('b.md', 'alpha\nBeta\ngamma #area/home\n')
    await write('a/one.md', '---\ntags: [area]\n---\nalpha one\n')
    await write('a/deep/two.md', 'alpha two\n')
    plant('.obsidian/app.md', 'alpha hidden')
    plant('a/.trash/old.md', 'alpha deleted')
    plant('picture.png', 'alpha')
    plant('raw.md', Buffer.from([0x61, 0xff]))
    symlinkSync('/etc', join(app.dataDir, 'vault/etc'))
  })
  const paths = async (action: string, args: Args) =>
    ((await vault(action, args))['results'] as { path: string }[]).map(({ path }) => path)

  it('lists notes and folders, sorted, without what is kept out', async () => {
    expect(await vault('list')).toEqual({
      ...{ action: 'list', path: '', recursive: false, count: 3, truncated: false },
      entries: [
        { path: 'a', is_dir: true, size: null },
        { path: 'b.md', is_dir: false, size: 28 },
        { path: 'raw.md', is_dir: false, size: 2 },
      ],
    })
    const { entries } = await vault('list', { path: 'a/', recursive: true })
    expect((entries as { path: string }[]).map(({ path }) => path)).toEqual(['a/deep', 'a/deep/two.md', 'a/one.md'])
    expect(await codeOf('list', { path: 'none' })).toBe('ERR_NOTE_NOT_FOUND')
    for (const path of ['etc', '.obsidian', '..']) expect(await codeOf('list', { path })).toBe('ERR_INVALID_INPUT')
  })

  it('finds lines by text and by pattern', async () => {
    expect(await vault('search', { query: 'Beta' })).toEqual({
      ...{ action: 'search', query: 'Beta', result_count: 1, truncated: false },
      results: [{ path: 'b.md', line_number: 2, line: 'Beta', context: 'alpha\nBeta\ngamma #area/home' }],
    })
    expect(await paths('search', { query: 'alpha' })).toEqual(['a/deep/two.md', 'a/one.md', 'b.md'])
    expect(await paths('search', { query: '^alpha \\w{3}$', regex: true })).toEqual(['a/deep/two.md', 'a/one.md'])
    expect(await paths('search', { query: 'alpha', path_prefix: 'a/d' })).toEqual(['a/deep/two.md'])
    expect(await paths('search', { query: 'a', path_prefix: 'b', max_results: 0 })).toHaveLength(3)
    expect(await paths('search', { query: 'alpha', tag: '#Area' })).toEqual(['a/one.md', 'b.md'])
    expect(await vault('search', { query: 'alpha', max_results: 2 })).toMatchObject({
      result_count: 2,
      truncated: true,
    })
    expect(await vault('search', { query: 'alpha', max_results: 3 })).toMatchObject({
      result_count: 3,
      truncated: false,
    })
    const { content } = await app.call('vault', { action: 'search', query: 'alpha' })
    expect(JSON.stringify(content)).toContain('left out, because')
    for (const args of [
      { query: '' },
      { query: '(', regex: true },
      { query: 'x'.repeat(1_025) },
      { query: 'x', tag: 'a b' },
    ]) {
      expect(await codeOf('search', args)).toBe('ERR_INVALID_INPUT')
    }
  })

  it('gives twenty results unless asked for more', async () => {
    await write('many.md', 'needle\n'.repeat(30))
    expect(await vault('search', { query: 'needle' })).toMatchObject({ result_count: 20, truncated: true })
    expect(await vault('search', { query: 'needle', max_results: 0 })).toMatchObject({
      result_count: 30,
      truncated: false,
    })
  })

  it('counts, and names what was changed last', async () => {
    for (const [index, path] of ['a/one.md', 'raw.md', 'a/deep/two.md', 'b.md'].entries()) {
      utimesSync(join(app.dataDir, 'vault', path), 1_000, 1_000 * (index + 1))
    }
    expect(await vault('stats', { recent_count: 2 })).toEqual({
      ...{ action: 'stats', total_notes: 4, total_folders: 2, truncated: false },
      total_size_bytes: ['b.md', 'a/one.md', 'a/deep/two.md'].reduce((sum, path) => sum + onDisk(path).length, 2),
      recent_files: [
        { path: 'b.md', size_bytes: 28, modified: '1970-01-01T01:06:40.000Z' },
        { path: 'a/deep/two.md', size_bytes: 10, modified: '1970-01-01T00:50:00.000Z' },
      ],
    })
  })

  it('replaces in one note and counts', async () => {
    expect(await vault('replace', { path: 'b.md', old_string: 'a', new_string: 'A' })).toEqual({
      ...{ action: 'replace', path: 'b.md', replacements: 7 },
    })
    const swap = { path: 'b.md', old_string: '(?m)^(\\w)(\\w+)$', new_string: '$2$1', regex: true }
    expect(await vault('replace', swap)).toMatchObject({ replacements: 2 })
    expect(onDisk('b.md')).toBe('lphAA\netAB\ngAmmA #AreA/home\n')
    expect(await vault('replace', { path: 'b.md', old_string: 'zzz', new_string: '' })).toMatchObject({
      replacements: 0,
    })
    expect(await codeOf('replace', { path: 'b.md', old_string: '', new_string: 'x' })).toBe('ERR_INVALID_INPUT')
    expect(await codeOf('replace', { path: 'none.md', old_string: 'x', new_string: 'y' })).toBe('ERR_NOTE_NOT_FOUND')
    expect(await codeOf('replace', { path: 'raw.md', old_string: 'x', new_string: 'y' })).toBe('ERR_INVALID_INPUT')
  })
})

describe('what is refused', () => {
  it('is every path that is not a note of this vault, for every action that takes one', async () => {
    plant('n.md', 'x')
    const bad = [
      '../x.md',
      '/etc/x.md',
      'a/../../x.md',
      'x.txt',
      'x',
      '.git/x.md',
      '.castellan/x.md',
      'a\\x.md',
      'l/x.md',
    ]
    symlinkSync(app.dataDir, join(app.dataDir, 'vault/l'))
    for (const path of bad) {
      for (const [action, args] of [
        ['read', { path }],
        ['write', { path, content: 'x' }],
        ['delete', { path, confirm: true }],
        ['frontmatter', { path, frontmatter_action: 'set', key: 'a', value: 1 }],
        ['tags', { path, tags_action: 'list' }],
        ['replace', { path, old_string: 'x', new_string: 'y' }],
        ['move', { path, new_path: 'y.md' }],
        ['move', { path: 'n.md', new_path: path }],
      ] as const) {
        expect(await codeOf(action, args), `${action} ${path}`).toBe('ERR_INVALID_INPUT')
      }
    }
    expect(readdirSync(join(app.dataDir, 'vault')).sort()).toEqual(['.castellan', 'l', 'n.md'])
  })

  it('is a parameter that is missing, and one that belongs to another action', async () => {
    expect(await refused('read')).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { field: 'path', constraint: 'required' },
    })
    const stray = await refused('write', { path: 'n.md', content: 'x', overwrite: false })
    expect(stray).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'overwrite' } })
    expect(stray.message).toContain('path, content, mode')
    expect(await vault('list', { path: null, value: null })).toMatchObject({ count: 0 })
    expect((await refused('burn')).code).toBe('ERR_INVALID_INPUT')
  })

  it('is everything while the vault is turned off', async () => {
    await using off = await openTestApp({ config: { 'vault.enabled': false } })
    expect(await off.refusal('vault', { action: 'list' })).toMatchObject({
      code: 'ERR_FEATURE_DISABLED',
      details: { setting: 'vault.enabled' },
    })
    expect(existsSync(join(off.dataDir, 'vault'))).toBe(false)
  })

  it('is told as the failure of the store when the disk fails', async () => {
    await write('n.md', 'old')
    installFaultPlan((point) => {
      if (point === 'file.replace') throw Object.assign(new Error('planned'), { code: 'EIO' })
    })
    expect(await codeOf('write', { path: 'n.md', content: 'new' })).toBe('ERR_STORE_UNAVAILABLE')
    installFaultPlan(undefined)
    expect(onDisk('n.md')).toBe('old')
    expect((app.errors as unknown[]).splice(0)).toHaveLength(1)
  })
})
