import { afterAll, beforeAll, expect, it } from 'vitest'
import { permissionsOfRole } from '../../src/contract/permissions.ts'
import { type BuiltInRole, LOCAL_TENANT, type Tier } from '../../src/contract/principal.ts'
import { principalOfUser } from '../../src/domains/people/rules.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'

/** What users leave behind that lets a caller in: keys that they made, and links that nobody used. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const PASSWORD = 'correct horse battery'
type Made = Readonly<{ id: string; link: string }>
const tokenOf = (link: string): string => link.split('/').at(-1)!
const accept = (link: string) => app.ask('invitation_accept', { token: tokenOf(link), password: PASSWORD })

/** A user as the server knows one that has signed in. */
async function person(email: string, role: BuiltInRole = 'admin', tier: Tier = 'operator'): Promise<ToolCaller> {
  const { id } = await app.ask<Made>('user_create', { email, role, tier })
  const user = { tenant: LOCAL_TENANT, id, email, name: email, role, tier, createdBy: 'owner', createdAtMs: 0 }
  return callerOf(principalOfUser(user, permissionsOfRole(role), []), { transport: 'http' })
}

async function newKey(caller: ToolCaller, name: string, more: Record<string, unknown> = {}): Promise<ToolCaller> {
  const { secret } = await app.ask<{ secret: string }>('api_key_create', { name, role: 'admin', ...more }, caller)
  const { identity } = await app.app.ready
  return callerOf(await identity!.authenticate(secret, app.clock.nowMs()), { transport: 'http' })
}

async function statuses(): Promise<Record<string, string>> {
  const { keys } = await app.ask<{ keys: { name: string; status: string }[] }>('api_key_list')
  return Object.fromEntries(keys.map(({ name, status }) => [name, status]))
}

it('keys of a user end with the user, and so do keys that those made', async () => {
  const ada = await person('ada@example.com')
  const first = await newKey(ada, 'ada-1')
  await newKey(first, 'ada-2')
  await newKey(ada, 'ada-other', { tenant: 'other', role: 'member' })
  await newKey(await person('bob@example.com'), 'bob-1')
  await app.keyCaller({ name: 'of-the-owner' })
  const removed = await app.ask('user_delete', { user: 'ada@example.com' })
  expect(removed).toMatchObject({ email: 'ada@example.com', revoked_keys: ['ada-1', 'ada-2'] })
  expect(await statuses()).toMatchObject({
    ...{ 'ada-1': 'revoked', 'ada-2': 'revoked' },
    ...{ 'bob-1': 'live', 'of-the-owner': 'live' },
  })
  const { keys } = await app.ask<{ keys: unknown[] }>('api_key_list', { tenant: 'other' })
  expect(keys).toMatchObject([{ name: 'ada-other', status: 'live' }])
  const { effects } = (await app.log()).findLast(({ tool }) => tool === 'user_delete')!
  expect(effects?.map(({ kind }) => kind)).toEqual(['api_key_revoked', 'api_key_revoked', 'user_deleted'])
})

it('keys that could do more than the user still may end with the right, and others stay', async () => {
  const eve = await person('eve@example.com')
  await newKey(eve, 'eve-admin')
  await newKey(eve, 'eve-operator', { role: 'member', tier: 'operator' })
  await newKey(eve, 'eve-member', { role: 'member', tier: 'user' })
  const renamed = await app.ask('user_update', { user: 'eve@example.com', name: 'Eve' })
  expect(renamed).not.toHaveProperty('revoked_keys')
  const changed = await app.ask('user_update', { user: 'eve@example.com', role: 'member', tier: 'user' })
  expect(changed).toMatchObject({ role: 'member', revoked_keys: ['eve-admin', 'eve-operator'] })
  expect(await statuses()).toMatchObject({ 'eve-admin': 'revoked', 'eve-operator': 'revoked', 'eve-member': 'live' })
})

it('one link that was used ends the others for the same person', async () => {
  const { link } = await app.ask<Made>('user_create', { email: 'kim@example.com', role: 'member' })
  const again = () => app.ask<Made>('user_update', { user: 'kim@example.com', new_link: true })
  const [second, third] = [await again(), await again()]
  await accept(second.link)
  for (const unused of [link, third.link]) {
    const refused = await app.refusal('invitation_accept', { token: tokenOf(unused), password: PASSWORD })
    expect(refused).toMatchObject({ code: 'ERR_NOT_FOUND', details: { field: 'token' } })
  }
  const fourth = await again()
  await accept(fourth.link)
})

it('an invitation that was accepted ends the others to the same address', async () => {
  const invite = () => app.ask<Made>('invitation_create', { email: 'joe@example.com', role: 'member' })
  const [first, second] = [await invite(), await invite()]
  await accept(first.link)
  expect(await app.refusal('invitation_accept', { token: tokenOf(second.link), password: PASSWORD })).toMatchObject({
    code: 'ERR_NOT_FOUND',
  })
  const { invitations } = await app.ask<{ invitations: Record<string, unknown>[] }>('invitation_list')
  expect(invitations.filter(({ email }) => email === 'joe@example.com').map(({ status }) => status)).toEqual(
    expect.arrayContaining(['accepted', 'cancelled']),
  )
})
