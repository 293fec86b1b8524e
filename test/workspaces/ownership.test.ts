import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import type { TestApp } from '../support/app.ts'
import { destroyAll, info, namesFor, openWorkspaceApp, rowsFor, sh } from '../support/workspaces.ts'

let app: TestApp
let ann: ToolCaller
let bob: ToolCaller
let chief: ToolCaller
beforeAll(async () => {
  app = await openWorkspaceApp({
    config: { 'workspaces.quota.workspaces': 2, 'workspaces.quota.memory_mb': 900, 'workspaces.max_workspaces': 5 },
  })
  ann = await app.keyCaller({ name: 'ann' })
  bob = await app.keyCaller({ name: 'bob' })
  chief = await app.keyCaller({ name: 'chief', role: 'admin' })
})
afterEach(async () => {
  await app.ask('workspace_adopt')
  await destroyAll(app)
})
afterAll(() => app[Symbol.asyncDispose]())

const make = (name: string, caller?: ToolCaller, more: object = {}) =>
  app.ask('workspace_create', { name, memory_mb: 64, ...more }, caller)
const everyUse: readonly [string, object][] = [
  ['workspace_start', {}],
  ['workspace_stop', {}],
  ['workspace_destroy', {}],
  ['exec', { command: 'true' }],
  ['exec_background', { action: 'list' }],
  ['set_env', { vars: { A: 'b' } }],
  ['file_read', { path: '/etc/hostname' }],
  ['file_write', { path: '/x', content: 'x' }],
  ['file_edit', { path: '/x', old_string: 'a', new_string: 'b' }],
  ['file_list', { path: '/' }],
  ['file_transfer', { direction: 'upload', host_path: 'x', guest_path: '/x' }],
  ['snapshot', { action: 'list' }],
  ['workspace_fork', { snapshot_name: 's' }],
  ['port_forward', { action: 'list', guest_port: 1 }],
  ['network_policy', {}],
  ['workspace_resize', { vcpus: 1 }],
]

describe('workspaces of several owners', () => {
  it('are not there for others of the tenant, by name or by id, in any tool', async () => {
    const { workspace_id } = await make('anns', ann)
    expect(await namesFor(app, bob)).toEqual([])
    for (const reference of ['anns', String(workspace_id)]) {
      for (const [tool, more] of [
        ...everyUse,
        ['workspace_info', {}],
        ['workspace_logs', {}],
        ['workspace_adopt', {}],
      ] as const) {
        const failure = await app.refusal(tool, { workspace_id: reference, ...more }, bob)
        expect([tool, failure.code]).toEqual([tool, 'ERR_WORKSPACE_NOT_FOUND'])
        expect(failure.message).toBe((await app.refusal(tool, { workspace_id: reference, ...more }, bob)).message)
      }
    }
    const nobodys = await app.refusal('workspace_info', { workspace_id: 'none' }, bob)
    expect(nobodys.message.replace('none', 'anns')).toBe(
      (await app.refusal('workspace_info', { workspace_id: 'anns' }, bob)).message,
    )
  })

  it('are not there for another tenant, its administrators included', async () => {
    const { workspace_id } = await make('locals')
    const untrusted = await app.keyCaller({ name: 'unrelated', tenant: 'elsewhere', role: 'admin', tier: 'operator' })
    expect(await namesFor(app, untrusted)).toEqual([])
    for (const [tool, more] of [
      ...everyUse,
      ['workspace_info', {}],
      ['workspace_logs', {}],
      ['workspace_adopt', { force: true }],
    ] as const) {
      const { code } = await app.refusal(tool, { workspace_id, ...more }, untrusted)
      expect([tool, code]).toEqual([tool, 'ERR_WORKSPACE_NOT_FOUND'])
    }
    expect(await app.ask('workspace_adopt', {}, untrusted)).toMatchObject({ adopted_count: 0 })
    await make('locals', untrusted)
    expect((await sh(app, 'locals', 'hostname', {}, untrusted)).stdout).toBe('locals\n')
    await app.ask('workspace_destroy', { workspace_id: 'locals' }, untrusted)
    expect(await namesFor(app)).toEqual(['locals'])
  })

  it('are seen and used by administrators, as another’s', async () => {
    await make('anns', ann)
    expect(await rowsFor(app, chief)).toMatchObject([{ name: 'anns', owned: false, orphaned: false }])
    expect((await sh(app, 'anns', 'hostname', {}, chief)).stdout).toBe('anns\n')
    expect(await app.refusal('workspace_adopt', { workspace_id: 'anns' }, chief)).toMatchObject({
      code: 'ERR_WORKSPACE_STATE',
      message: expect.stringContaining('force'),
    })
    expect(await app.ask('workspace_adopt', { workspace_id: 'anns', force: true }, chief)).toMatchObject({
      adopted: true,
      forced: true,
      name: 'anns',
    })
    expect(await namesFor(app, ann)).toEqual([])
    expect(await app.ask('workspace_adopt', { workspace_id: 'anns' }, chief)).toMatchObject({
      adopted: true,
      forced: false,
    })
  })

  it('whose key is gone are orphaned: for administrators and for a key of the same name, usable after adoption', async () => {
    const gone = await app.keyCaller({ name: 'gone' })
    await make('left', gone)
    await app.ask('snapshot', { workspace_id: 'left', action: 'create', name: 's' }, gone)
    await app.ask('api_key_revoke', { key: 'gone' })
    // What ran in it ended with the key.
    await expect.poll(async () => (await info(app, 'left'))['state']).toBe('stopped')
    const heir = await app.keyCaller({ name: 'gone' })
    for (const caller of [chief, heir]) {
      expect(await rowsFor(app, caller)).toMatchObject([{ name: 'left', owned: false, orphaned: true }])
      expect(await info(app, 'left', caller)).toMatchObject({ orphaned: true })
      for (const [tool, more] of everyUse) {
        const { code, message } = await app.refusal(tool, { workspace_id: 'left', ...more }, caller)
        expect([tool, code]).toEqual([tool, 'ERR_WORKSPACE_ORPHANED'])
        expect(message).toContain('workspace_adopt')
      }
    }
    expect(await app.ask('workspace_adopt', {}, heir)).toMatchObject({
      adopted_count: 1,
      adopted: [{ name: 'left', state: 'stopped' }],
      error_count: 0,
    })
    await app.ask('workspace_start', { workspace_id: 'left' }, heir)
    expect((await sh(app, 'left', 'hostname', {}, heir)).stdout).toBe('left\n')
    expect(await namesFor(app, ann)).toEqual([])
    await app.ask('api_key_revoke', { key: 'gone' })
    expect(await app.ask('workspace_adopt', { workspace_id: 'left' }, chief)).toMatchObject({ adopted: true })
  })

  it.each([
    ['another key', { name: 'other' }, {}],
    ['a key of the same name with a lower role', { name: 'same' }, { role: 'editor' }],
    ['a key of the same name with a lower tier', { name: 'same' }, { tier: 'operator' }],
    ['a key of the same name with fewer scopes', { name: 'same', scopes: ['workspace:read', 'workspace:update'] }, {}],
  ] as const)('whose key is gone are not there for %s', async (_, key, before) => {
    const gone = await app.keyCaller({ name: 'same', ...before })
    const { workspace_id } = await make('left', gone)
    await app.ask('snapshot', { workspace_id: 'left', action: 'create', name: 's' }, gone)
    await app.ask('api_key_revoke', { key: 'same' })
    const caller = await app.keyCaller(key)
    expect(await namesFor(app, caller)).toEqual([])
    expect(await app.ask('workspace_adopt', {}, caller)).toMatchObject({ adopted_count: 0, error_count: 0 })
    for (const reference of ['left', String(workspace_id)]) {
      for (const [tool, more] of [
        ['workspace_adopt', {}],
        ['workspace_adopt', { force: true }],
        ['workspace_info', {}],
        ...('scopes' in key ? [] : everyUse),
      ] as const) {
        const failure = await app.refusal(tool, { workspace_id: reference, ...more }, caller)
        const nobodys = await app.refusal(tool, { workspace_id: 'nobodys', ...more }, caller)
        expect([tool, failure.code]).toEqual([tool, 'ERR_WORKSPACE_NOT_FOUND'])
        expect(failure.message).toBe(nobodys.message.replace('nobodys', reference))
      }
    }
    await app.ask('api_key_revoke', { key: key.name })
  })
})

describe('quotas', () => {
  it('name the quota, the use and the limit, and do not bind the local owner', async () => {
    await make('one', ann)
    expect(await app.refusal('workspace_create', { memory_mb: 850 }, ann)).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'memory_mb', used: 64, wanted: 850, limit: 900 },
    })
    expect(await app.refusal('workspace_resize', { workspace_id: 'one', memory_mb: 901 }, ann)).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'memory_mb', used: 64, wanted: 837, limit: 900 },
    })
    await make('two', ann)
    expect(await app.refusal('workspace_create', { memory_mb: 64 }, ann)).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'workspaces', used: 2, limit: 2 },
    })
    await make('three', bob)
    await make('four', bob)
    expect(await app.refusal('workspace_create', { memory_mb: 64 }, bob)).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'max_workspaces', used: 4, limit: 4 },
    })
    await make('five', undefined, { memory_mb: 1024 })
    expect(await app.refusal('workspace_create', {})).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'max_workspaces', limit: 5 },
    })
  })

  it('are kept in a race, and by adoption', async () => {
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, index) =>
        app.call('workspace_create', { name: `race-${index}`, memory_mb: 64 }, ann),
      ),
    )
    expect(answers.filter(({ isError }) => !isError)).toHaveLength(2)
    const gone = await app.keyCaller({ name: 'leaving' })
    await make('left', gone)
    await app.ask('api_key_revoke', { key: 'leaving' })
    await make('own', chief, { memory_mb: 850 })
    expect((await app.refusal('workspace_adopt', { workspace_id: 'left' }, chief)).code).toBe('ERR_QUOTA_EXCEEDED')
    expect(await app.ask('workspace_adopt', {}, chief)).toMatchObject({ adopted_count: 0, error_count: 1 })
  })
})
