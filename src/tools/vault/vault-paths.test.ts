import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestApp, ownerCaller, type TestApp } from '../../../test/support/app.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { ToolCaller } from '../runtime/tool-host.ts'

/** The vault as the rest of the program sees it: its owner, its log entries, its path. */
let app: TestApp
beforeEach(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterEach(async () => {
  expect(app.errors).toEqual([])
  await app[Symbol.asyncDispose]()
})

type Args = Readonly<Record<string, unknown>>
const vault = (action: string, args: Args = {}, caller?: ToolCaller) => app.ask('vault', { action, ...args }, caller)
const codeOf = async (action: string, args: Args = {}, caller?: ToolCaller) =>
  (await app.refusal('vault', { action, ...args }, caller)).code
const write = (path: string, content: string, caller?: ToolCaller) => vault('write', { path, content }, caller)
const onDisk = (path: string): string => readFileSync(join(app.dataDir, 'vault', path), 'utf8')

describe('tenants', () => {
  it('have vaults of their own, and nothing of each other’s', async () => {
    const a = await app.keyCaller({ tenant: 'a.b' })
    const b = await app.keyCaller({ tenant: 'b' })
    await write('secret.md', 'of the owner')
    await write('secret.md', 'of a', a)
    expect(readFileSync(join(app.dataDir, 'vaults/a%2eb/secret.md'), 'utf8')).toBe('of a')
    expect(await vault('read', { path: 'secret.md' }, ownerCaller)).toMatchObject({ content: 'of the owner' })
    const looks = [
      ['read', { path: 'secret.md' }],
      ['search', { query: 'of' }],
      ['list', { recursive: true }],
      ['stats', {}],
      ['batch_read', { paths: ['secret.md'] }],
      ['delete', { path: 'secret.md', confirm: true }],
      ['replace', { path: 'secret.md', old_string: 'of', new_string: '' }],
      ['move', { path: 'secret.md', new_path: 'x.md' }],
    ] as const
    for (const [action, args] of looks) {
      const { json } = await app.call('vault', { action, ...args }, b)
      expect(json, action).not.toMatch(/of a|of the owner|"count":[1-9]|"total_notes":[1-9]/)
    }
    await write('secret.md', 'of b', b)
    expect(await vault('read', { path: 'secret.md' }, a)).toMatchObject({ content: 'of a' })
  })

  it('need the permission', async () => {
    const caller = await app.keyCaller({ scopes: ['task:read'] })
    expect(await codeOf('list', {}, caller)).toBe('ERR_PERMISSION_DENIED')
    const reader = await app.keyCaller({ scopes: ['vault:read'] })
    expect(await vault('list', {}, reader)).toMatchObject({ count: 0 })
    expect(await codeOf('write', { path: 'n.md', content: 'x' }, reader)).toBe('ERR_PERMISSION_DENIED')
    expect(await write('n.md', 'x', await app.keyCaller({ scopes: ['vault:update'] }))).toMatchObject({ created: true })
  })
})

describe('the record', () => {
  it('says which note became what, and not its content', async () => {
    await write('n.md', 'secret words')
    await vault('replace', { path: 'n.md', old_string: 'none', new_string: 'x' })
    await vault('replace', { path: 'n.md', old_string: 'words', new_string: 'x' })
    await vault('move', { path: 'n.md', new_path: 'm.md' })
    await vault('delete', { path: 'm.md', confirm: true })
    const log = await app.log()
    expect(log.flatMap(({ effects = [] }) => effects.map(({ kind, body }) => ({ kind, body })))).toEqual([
      { kind: 'vault_note_written', body: { path: 'n.md', size_bytes: 12, sha256: sha256Hex('secret words') } },
      { kind: 'vault_note_written', body: { path: 'n.md', size_bytes: 8, sha256: sha256Hex('secret x') } },
      { kind: 'vault_note_moved', body: { from: 'n.md', to: 'm.md', replaced: false } },
      { kind: 'vault_note_deleted', body: { path: 'm.md' } },
    ])
    expect(JSON.stringify(log)).not.toContain('secret')
  })
})

describe('mode TEST', () => {
  it('leaves the vault of the configuration alone', async () => {
    await write('n.md', 'real')
    await app.stop()
    const test = await openTestApp({ config: { mode: 'TEST' }, dataDir: app.dataDir })
    expect(await test.ask('vault', { action: 'list' })).toMatchObject({ count: 0 })
    await test.ask('vault', { action: 'write', path: 'n.md', content: 'test' })
    await test.stop()
    expect(onDisk('n.md')).toBe('real')
  })
})
