import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { permissionsOfRole } from '../../src/contract/permissions.ts'
import { LOCAL_TENANT, tenantId } from '../../src/contract/principal.ts'
import { principalOfUser } from '../../src/domains/people/rules.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'

/** The only administrator who can sign in: nobody loses them without a word. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterAll(() => app[Symbol.asyncDispose]())

type Made = Readonly<{ id: string; link: string }>

/** An administrator, as the server knows one that has signed in. */
async function newAdmin(email: string, tenant: string = LOCAL_TENANT): Promise<ToolCaller> {
  const { id, link } = await app.ask<Made>('user_create', { email, role: 'admin', tenant })
  await app.ask('invitation_accept', { token: link.split('/').at(-1)!, password: 'correct horse battery' })
  const user = { id, email, name: email, role: 'admin', tier: 'operator', createdBy: 'owner', createdAtMs: 0 } as const
  const principal = principalOfUser({ ...user, tenant: tenantId(tenant) }, permissionsOfRole('admin'), [])
  return callerOf(principal, { transport: 'http' })
}

describe('the last administrator who can sign in', () => {
  it.each([
    ['user_delete', {}],
    ['user_update', { role: 'editor' }],
  ])('does not leave by their own %s, unless another can sign in', async (tool, change) => {
    const tenant = tool.replace('_', '-')
    const ada = await newAdmin(`ada@${tenant}.example`, tenant)
    const bob = `bob@${tenant}.example`
    const { link } = await app.ask<Made>('user_create', { email: bob, role: 'admin' }, ada)
    const leave = { user: ada.principal.actor, ...change }
    const refused = await app.refusal(tool, leave, ada)
    expect(refused).toMatchObject({ code: 'ERR_LAST_ADMIN', details: { field: 'user' } })
    expect(refused.message).toContain('user_update role=admin')
    await app.ask('user_update', { user: ada.principal.actor, name: 'Ada' }, ada)
    const { users } = await app.ask<{ users: { email: string; can_sign_in: boolean }[] }>('user_list', {}, ada)
    expect(users).toMatchObject([
      { email: ada.principal.actor, can_sign_in: true },
      { email: bob, can_sign_in: false },
    ])
    await app.ask('invitation_accept', { token: link.split('/').at(-1)!, password: 'correct horse battery' })
    expect((await app.call(tool, leave, ada)).warnings ?? []).toEqual([])
  })

  it('is removed by a caller that stays, which is warned', async () => {
    await newAdmin('eve@solo.example', 'solo')
    await app.ask('user_create', { email: 'joe@solo.example', role: 'member', tenant: 'solo' })
    const quiet = await app.call('user_delete', { user: 'joe@solo.example', tenant: 'solo' })
    expect(quiet.warnings ?? []).toEqual([])
    const { warnings } = await app.call('user_update', { user: 'eve@solo.example', role: 'member', tenant: 'solo' })
    expect(warnings).toEqual([expect.stringMatching(/administrator of the organisation 'solo'.*--tenant solo/)])
  })
})
