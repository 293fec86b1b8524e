import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Permission } from '../../src/contract/permissions.ts'
import { LOCAL_TENANT, type Tier } from '../../src/contract/principal.ts'
import { principalOfUser } from '../../src/domains/people/rules.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'

/** Custom roles for people and clients: they get what the role grants, and nobody gives or takes more than they have. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  await app.ask('create_mcp_gateway', { name: 'reports', scope: 'org' })
})
afterAll(() => app[Symbol.asyncDispose]())

const PASSWORD = 'correct horse battery'
let count = 0
const newName = (): string => `role-${++count}`
const newEmail = (): string => `person-${++count}@example.com`

async function newRole(...permissions: readonly Permission[]): Promise<string> {
  const name = newName()
  await app.ask('role_create', { name, permissions })
  return name
}

/** A user as the server knows one that has signed in. */
async function person(granted: readonly Permission[], tier: Tier = 'user'): Promise<ToolCaller> {
  const role = await newRole(...granted)
  const email = newEmail()
  const { id } = await app.ask<{ id: string }>('user_create', { email, role, tier })
  const user = { tenant: LOCAL_TENANT, id, email, name: email, role, tier, createdBy: 'owner', createdAtMs: 0 }
  return callerOf(principalOfUser(user, new Set(granted), []), { transport: 'http' })
}

const recruiting = [
  ...(['member:read', 'member:create', 'member:update', 'member:delete'] as const),
  ...(['invitation:read', 'invitation:create', 'invitation:cancel'] as const),
  ...(['apiKey:read', 'apiKey:create', 'apiKey:delete'] as const),
] as const

describe('a custom role', () => {
  it.each([
    ['user_create', () => ({ email: newEmail() })],
    ['invitation_create', () => ({ email: newEmail() })],
    ['oauth_client_create', () => ({ name: newName(), gateways: ['reports'] })],
  ] as const)('is given by %s, with the tier user unless another is asked for', async (tool, fields) => {
    const role = await newRole('task:read', 'agent:read')
    expect(await app.ask(tool, { ...fields(), role })).toMatchObject({ role, tier: 'user' })
    expect(await app.ask(tool, { ...fields(), role, tier: 'system' })).toMatchObject({ role, tier: 'system' })
  })

  it('cannot be one that is built in, which is not deleted', async () => {
    expect(await app.refusal('role_delete', { name: 'editor' })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      message: 'name: the role editor is built in and cannot be deleted',
    })
  })

  it('is given by user_update, and takes the tier with it', async () => {
    const role = await newRole('task:read')
    const email = newEmail()
    await app.ask('user_create', { email, role: 'editor' })
    expect(await app.ask('user_update', { user: email, role })).toMatchObject({ role, tier: 'user' })
    expect(await app.ask('user_update', { user: email, tier: 'operator' })).toMatchObject({ role, tier: 'operator' })
    expect(await app.ask('user_update', { user: email, role: 'admin' })).toMatchObject({ tier: 'operator' })
  })

  it('is what a person has who accepts an invitation to it', async () => {
    const role = await newRole('task:read')
    const email = newEmail()
    const { link } = await app.ask<{ link: string }>('invitation_create', { email, role })
    const accepted = await app.ask('invitation_accept', { token: link.split('/').at(-1)!, password: PASSWORD })
    expect(accepted).toMatchObject({ email, role, tier: 'user' })
  })

  it.each([
    ['user_create', { email: 'no@example.com' }],
    ['invitation_create', { email: 'no@example.com' }],
    ['oauth_client_create', { name: 'no', gateways: ['reports'] }],
    ['api_key_create', { name: 'no' }],
  ])('that nobody created is refused by %s, with the nearest name', async (tool, fields) => {
    await app.ask('role_create', { name: `reviewer-${tool.slice(0, 4)}`, permissions: ['task:read'] })
    const refused = await app.refusal(tool, { ...fields, role: `reviewr-${tool.slice(0, 4)}` })
    expect(refused).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'role' } })
    expect(refused.message).toMatch(/^role: use one of admin, editor, member, or a custom role.*role_list/)
    expect(refused.message).toContain(`did you mean 'reviewer-${tool.slice(0, 4)}'?`)
  })

  it('of another organisation is not there', async () => {
    const chief = await app.keyCaller({ tenant: 'acme', role: 'admin', tier: 'operator' })
    const name = 'elsewhere'
    await app.ask('role_create', { name, permissions: ['task:read'] }, chief)
    const refused = await app.refusal('user_create', { email: newEmail(), role: name })
    expect(refused).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'role' } })
    expect(refused.message).not.toContain('did you mean')
    const made = await app.ask('user_create', { email: newEmail(), role: name, tenant: 'acme' })
    expect(made).toMatchObject({ role: name, tenant: 'acme' })
  })

  it('is not named to who may not see the roles', async () => {
    await app.ask('role_create', { name: 'undercover', permissions: ['task:read'] })
    const recruiter = await person(recruiting)
    const refused = await app.refusal('user_create', { email: newEmail(), role: 'undercovr' }, recruiter)
    expect(refused.message).not.toContain('undercover')
    const seeing = await person([...recruiting, 'ac:read'])
    const hinted = await app.refusal('user_create', { email: newEmail(), role: 'undercovr' }, seeing)
    expect(hinted.message).toContain("'undercover'")
  })
})

describe('a person with a custom role', () => {
  it('gives roles with the same rights or fewer, and no other', async () => {
    const recruiter = await person([...recruiting, 'task:read'])
    const { role: same } = recruiter.principal
    const less = await newRole('task:read')
    const other = await newRole('task:read', 'agent:read')
    const give = [
      ['user_create', () => ({ email: newEmail() })],
      ['invitation_create', () => ({ email: newEmail() })],
      ['oauth_client_create', () => ({ name: newName(), gateways: ['reports'] })],
    ] as const
    for (const [tool, fields] of give) {
      for (const role of [same, less]) await app.ask(tool, { ...fields(), role }, recruiter)
      for (const role of [other, 'member', 'editor', 'admin']) {
        expect([tool, role, (await app.refusal(tool, { ...fields(), role }, recruiter)).code]).toEqual([
          ...[tool, role, 'ERR_PERMISSION_DENIED'],
        ])
      }
      const above = await app.refusal(tool, { ...fields(), role: less, tier: 'system' }, recruiter)
      expect(above).toMatchObject({ code: 'ERR_PERMISSION_DENIED', message: expect.stringContaining('tier') })
    }
    const refused = await app.refusal('user_create', { email: newEmail(), role: other }, recruiter)
    expect(refused.details).toMatchObject({ beyond_yours: ['agent:read'] })
  })

  it('changes, ends and removes only those whose rights they have', async () => {
    const recruiter = await person([...recruiting, 'task:read'])
    const [less, other] = [await newRole('task:read'), await newRole('agent:read')]
    const [theirs, foreign] = [newEmail(), newEmail()]
    await app.ask('user_create', { email: theirs, role: less })
    await app.ask('user_create', { email: foreign, role: other })
    const invited = await app.ask<{ id: string }>('invitation_create', { email: newEmail(), role: other })
    const client = newName()
    await app.ask('oauth_client_create', { name: client, gateways: ['reports'], role: other })
    const attempts: readonly (readonly [string, Record<string, unknown>])[] = [
      ['user_update', { user: foreign, name: 'Other' }],
      ['user_update', { user: foreign, role: less }],
      ['user_update', { user: foreign, new_link: true }],
      ['user_update', { user: theirs, role: other }],
      ['user_update', { user: theirs, role: 'member' }],
      ['user_delete', { user: foreign }],
      ['invitation_cancel', { invitation: invited.id }],
      ['oauth_client_delete', { client }],
    ]
    for (const [tool, args] of attempts) {
      expect([tool, args, (await app.refusal(tool, args, recruiter)).code]).toEqual([
        ...[tool, args, 'ERR_PERMISSION_DENIED'],
      ])
    }
    await app.ask('user_update', { user: theirs, name: 'Theirs' }, recruiter)
    await app.ask('user_delete', { user: theirs }, recruiter)
  })

  it('has keys that end when the next role can do less', async () => {
    const caller = await person(['task:read', 'task:create', 'apiKey:create', 'apiKey:read'])
    const [read, write] = [newName(), newName()]
    const { role } = caller.principal
    await app.ask('api_key_create', { name: read, role, scopes: ['task:read'] }, caller)
    await app.ask('api_key_create', { name: write, role, scopes: ['task:create'] }, caller)
    const reader = await newRole('task:read')
    const changed = await app.ask('user_update', { user: caller.principal.actor, role: reader })
    expect(changed).toMatchObject({ role: reader, revoked_keys: [write] })
  })
})

describe('a role that is in use', () => {
  it('is not deleted, and the refusal counts who has it and says how to go on', async () => {
    const role = await newRole('task:read')
    const [one, two, invited] = [newEmail(), newEmail(), newEmail()]
    for (const email of [one, two]) await app.ask('user_create', { email, role })
    const { id } = await app.ask<{ id: string }>('invitation_create', { email: invited, role })
    await app.ask('oauth_client_create', { name: role, gateways: ['reports'], role })
    const refused = await app.refusal('role_delete', { name: role })
    expect(refused).toMatchObject({
      code: 'ERR_ROLE_IN_USE',
      details: { field: 'name', users: 2, invitations: 1, clients: 1 },
    })
    expect(refused.message).toMatch(/2 users, 1 open invitation, 1 OAuth client/)
    for (const tool of ['user_update', 'invitation_cancel', 'oauth_client_delete'])
      expect(refused.message).toContain(tool)

    await app.ask('user_update', { user: one, role: 'member' })
    await app.ask('user_delete', { user: two })
    await app.ask('invitation_cancel', { invitation: id })
    expect((await app.refusal('role_delete', { name: role })).message).toMatch(/in use: 1 OAuth client;/)
    await app.ask('oauth_client_delete', { client: role })
    expect(await app.ask('role_delete', { name: role })).toEqual({ name: role, deleted: true })
  })

  it('is not created again for those who still have it', async () => {
    const role = await newRole('task:read')
    const email = newEmail()
    await app.ask('user_create', { email, role })
    app.behindItsBack((db) => db.prepare('DELETE FROM roles WHERE name = ?').run(role))
    const refused = await app.refusal('role_create', { name: role, permissions: ['vault:read'] })
    expect(refused).toMatchObject({ code: 'ERR_ROLE_IN_USE', details: { field: 'name', users: 1 } })
    await app.ask('user_update', { user: email, role: 'member' })
    await app.ask('role_create', { name: role, permissions: ['vault:read'] })
  })

  it('gives nothing to an invitation whose role is gone', async () => {
    const role = await newRole('task:read')
    const { link } = await app.ask<{ link: string }>('invitation_create', { email: newEmail(), role })
    app.behindItsBack((db) => db.prepare('DELETE FROM roles WHERE name = ?').run(role))
    const accepted = { token: link.split('/').at(-1)!, password: PASSWORD }
    expect(await app.refusal('invitation_accept', accepted)).toMatchObject({ code: 'ERR_NOT_FOUND' })
  })
})

describe('keys of a role that is deleted', () => {
  it('are named in a warning, and have nothing any more', async () => {
    const role = await newRole('task:read')
    const name = newName()
    const { secret } = await app.ask<{ secret: string }>('api_key_create', { name, role })
    const { identity } = await app.app.ready
    expect((await identity!.authenticate(secret, app.clock.nowMs())).permissions).toEqual(new Set(['task:read']))
    const { warnings } = await app.call('role_delete', { name: role })
    expect(warnings).toEqual([expect.stringContaining(`'${name}'`)])
    expect((await identity!.authenticate(secret, app.clock.nowMs())).permissions).toEqual(new Set())
  })
})

describe('a custom role for people of an identity provider', () => {
  const provider = {
    ...{ id: 'company', name: 'Company', issuer: 'https://login.example.com', client_id: 'castellan' },
    ...{ new_users: 'create', email_domains: ['example.com'], default_role: 'newcomer' },
  }

  it('is what new users get, is missed with a word, and is not deleted', async () => {
    await using own = await openTestApp({ config: { oidc_providers: [provider] as never } })
    await own.app.ready
    expect(own.warnings.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/company: the organisation 'local' has no role 'newcomer'.*role_create/),
    )
    const admit = { provider: 'company', email: 'nina@example.com' }
    const missed = await own.refusal('user_admit', admit)
    expect(missed).toMatchObject({ code: 'ERR_NOT_FOUND', message: expect.stringContaining('role_create') })
    await own.ask('role_create', { name: 'newcomer', permissions: ['task:read'] })
    const inUse = await own.refusal('role_delete', { name: 'newcomer' })
    expect(inUse).toMatchObject({ code: 'ERR_ROLE_IN_USE', details: { providers: ['company'] } })
    expect(inUse.message).toContain('default_role')
    expect(await own.ask('user_admit', admit)).toMatchObject({ role: 'newcomer', tier: 'user' })
  })
})
