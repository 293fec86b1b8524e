import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'

/** Roles that a tenant makes for itself: keys get them, and nobody gets more by them than the author had. */
let app: TestApp
let chief: ToolCaller
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  chief = await app.keyCaller({ tenant: 'acme', role: 'admin' })
})
afterAll(() => app[Symbol.asyncDispose]())

const make = (name: string, permissions: readonly string[], caller = chief) =>
  app.ask('role_create', { name, description: 'For tests.', permissions }, caller)

describe('a role of a tenant', () => {
  it('is what its keys have', async () => {
    expect(await make('reader', ['task:*', 'agent:read'])).toMatchObject({
      name: 'reader',
      permissions: ['agent:read', 'task:create', 'task:read', 'task:update'],
      built_in: false,
    })
    const key = await app.keyCaller({ tenant: 'acme', role: 'reader' })
    expect(key.principal.role).toBe('reader')
    expect([...key.principal.permissions].sort()).toEqual(['agent:read', 'task:create', 'task:read', 'task:update'])
    await app.ask('list_agents', {}, key)
    expect(await app.refusal('create_agent', { name: 'x' }, key)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
      details: { permission: 'agent:create' },
    })
    const narrow = await app.keyCaller({ tenant: 'acme', role: 'reader', scopes: ['task:read'] })
    expect([...narrow.principal.permissions]).toEqual(['task:read'])
    expect(
      (await app.refusal('api_key_create', { name: 'z', role: 'reader', scopes: ['vault:read'] }, chief)).code,
    ).toBe('ERR_INVALID_INPUT')
  })

  it('is there for its tenant alone', async () => {
    await make('lonely', ['task:read'])
    expect((await app.refusal('api_key_create', { name: 'a', role: 'lonely' })).message).toMatch(/^role: use one of/)
    const names = async (caller?: ToolCaller) =>
      (await app.ask<{ roles: { name: string }[] }>('role_list', {}, caller)).roles.map(({ name }) => name)
    expect(await names()).toEqual(['admin', 'editor', 'member'])
    expect(await names(chief)).toContain('lonely')
    expect((await app.refusal('role_delete', { name: 'lonely' })).code).toBe('ERR_NOT_FOUND')
  })

  it('is managed by the operator of the installation too, and by nobody else', async () => {
    const permissions = ['task:read']
    await app.ask('role_create', { name: 'given', permissions, tenant: 'acme' })
    const taken = await app.refusal('role_create', { name: 'given', permissions }, chief)
    expect(taken.code).toBe('ERR_ALREADY_EXISTS')
    const names = async (input: object, caller?: ToolCaller) =>
      (await app.ask<{ roles: { name: string }[] }>('role_list', input, caller)).roles.map(({ name }) => name)
    expect(await names({}, chief)).toContain('given')
    expect(await names({ tenant: 'acme' })).toContain('given')
    expect(await names({})).not.toContain('given')
    const person = { email: 'given@example.com', role: 'given', tenant: 'acme' }
    expect(await app.ask('user_create', person)).toMatchObject({ role: 'given', tenant: 'acme' })
    expect((await app.refusal('role_delete', { name: 'given', tenant: 'acme' })).code).toBe('ERR_ROLE_IN_USE')
    await app.ask('user_delete', { user: person.email, tenant: 'acme' })
    await app.ask('role_delete', { name: 'given', tenant: 'acme' })
    expect(await names({}, chief)).not.toContain('given')
    for (const [tool, input] of [
      ['role_create', { name: 'foreign', permissions }],
      ['role_list', {}],
      ['role_delete', { name: 'reader' }],
    ] as const) {
      const refused = await app.refusal(tool, { ...input, tenant: 'other' }, chief)
      expect(refused, tool).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
      expect(refused.message).toBe(
        "tenant: only an operator of the tenant 'local' may manage the roles of another tenant",
      )
    }
  })

  it('that was deleted is what the list says of its keys', async () => {
    await make('brief', ['task:read'])
    await app.ask('api_key_create', { name: 'of-brief', role: 'brief' }, chief)
    await app.ask('api_key_create', { name: 'of-member', role: 'member' }, chief)
    const statuses = async () => {
      const { keys } = await app.ask<{ keys: { name: string; status: string }[] }>('api_key_list', {}, chief)
      return Object.fromEntries(keys.map(({ name, status }) => [name, status]))
    }
    expect(await statuses()).toMatchObject({ 'of-brief': 'live', 'of-member': 'live' })
    await app.ask('role_delete', { name: 'brief' }, chief)
    expect(await statuses()).toMatchObject({ 'of-brief': 'role_deleted', 'of-member': 'live' })
    await app.ask('api_key_revoke', { key: 'of-brief' }, chief)
    expect(await statuses()).toMatchObject({ 'of-brief': 'revoked' })
  })

  it('never exceeds its author, nor does a key that it makes', async () => {
    const scoped = await app.keyCaller({
      tenant: 'acme',
      role: 'admin',
      scopes: ['ac:create', 'ac:delete', 'apiKey:create', 'task:read'],
    })
    const refused = await app.refusal('role_create', { name: 'more', permissions: ['task:read', 'vault:read'] }, scoped)
    expect(refused).toMatchObject({ code: 'ERR_PERMISSION_DENIED', details: { beyond_yours: ['vault:read'] } })
    await make('less', ['task:read'], scoped)
    await make('strong', ['task:read', 'vault:read'])
    const made = await app.ask('api_key_create', { name: 'b', role: 'strong' }, scoped)
    expect(made).toMatchObject({ role: 'strong', scopes: ['task:read'] })
    const wanted = { name: 'c', role: 'strong', scopes: ['vault:read'] }
    expect((await app.refusal('api_key_create', wanted, scoped)).code).toBe('ERR_PERMISSION_DENIED')
    expect((await app.refusal('role_delete', { name: 'strong' }, scoped)).code).toBe('ERR_PERMISSION_DENIED')
  })

  it('takes the rights of its keys with it', async () => {
    await make('brief', ['task:read'])
    const created = await app.ask<{ secret: string }>('api_key_create', { name: 'k', role: 'brief' }, chief)
    const { identity } = await app.app.ready
    const now = app.clock.nowMs()
    expect((await identity!.authenticate(created.secret, now)).permissions).toEqual(new Set(['task:read']))
    await app.ask('role_delete', { name: 'brief' }, chief)
    const later = await identity!.authenticate(created.secret, now + limits.apiKeyCacheMs)
    expect(later.permissions).toEqual(new Set())
    expect((await app.refusal('api_key_create', { name: 'l', role: 'brief' }, chief)).code).toBe('ERR_INVALID_INPUT')
  })

  it('does not get the keys of a deleted role of its name', async () => {
    await make('again', ['task:read'])
    const created = await app.ask<{ secret: string }>('api_key_create', { name: 'old', role: 'again' }, chief)
    await app.ask('role_delete', { name: 'again' }, chief)
    const wanted = { name: 'again', permissions: ['task:read', 'vault:read'] }
    expect(await app.refusal('role_create', wanted, chief)).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
      message: expect.stringContaining('api_key_revoke'),
      details: { field: 'name' },
    })
    const { identity } = await app.app.ready
    const later = app.clock.nowMs() + limits.apiKeyCacheMs
    expect((await identity!.authenticate(created.secret, later)).permissions).toEqual(new Set())
    await app.ask('role_create', wanted)
    await app.ask('api_key_revoke', { key: 'old' }, chief)
    await app.ask('role_create', wanted, chief)
  })

  it.each([
    ['admin', ['task:read'], 'ERR_INVALID_INPUT'],
    ['Not good', ['task:read'], 'ERR_INVALID_INPUT'],
    ['typo', ['task:reed'], 'ERR_INVALID_INPUT'],
    ['reader', ['task:read'], 'ERR_ALREADY_EXISTS'],
  ])('is refused as %s with %j', async (name, permissions, code) => {
    expect((await app.refusal('role_create', { name, permissions }, chief)).code).toBe(code)
  })
})
