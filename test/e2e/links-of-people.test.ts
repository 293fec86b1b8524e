import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { castellanJson, newPerson, PASSWORD, postForm, type Row, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** One-time links give nobody more than they may give themselves, however long they are held back. */
let server: ServerHere
let helper: string
const env = { CASTELLAN_REQUIRE_KEYS: 'true', CASTELLAN_RATE_LIMITS_ENABLED: 'false' }
beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  server = await startServerHere({ dataDir, env })
  const { roles } = (await cli('roles', 'list')) as { roles: { name: string; permissions: string[] }[] }
  const ofMembers = roles.find(({ name }) => name === 'member')!.permissions
  await newRole('helpdesk', [...ofMembers, 'member:read', 'member:update', 'invitation:create'])
  helper = await signIn(server, await newPerson(server, 'helper@example.com', ['--role', 'helpdesk']))
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

const cli = (...args: string[]) => castellanJson(server, args)
const newRole = (name: string, permissions: readonly string[]) =>
  cli('call', 'role_create', `name=${name}`, `permissions=${JSON.stringify(permissions)}`)

async function callAs(headers: Record<string, string>, tool: string, args: object): Promise<Row & { status: number }> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(args),
  })
  return { ...((await response.json()) as Row), status: response.status }
}
const use = async (link: unknown): Promise<number> => {
  const url = new URL(new URL(String(link)).pathname, server.url)
  return (await postForm(url, { password: PASSWORD, again: PASSWORD })).status
}

it('a link for a new password ends when its user gets more rights', async () => {
  const { email } = await newPerson(server, 'rising@example.com')
  const { link } = await callAs({ cookie: helper }, 'user_update', { user: email, new_link: true })
  const updated = await cli('users', 'update', email, '--role', 'admin')
  expect(await use(link)).toBe(404)
  const { invitations } = (await cli('invite', 'list')) as { invitations: Row[] }
  expect(invitations.find((one) => one['email'] === email && one['status'] !== 'accepted')).toMatchObject({
    purpose: 'password',
    status: 'cancelled',
  })
  // The administrator can give another in the same call.
  const again = await cli('users', 'update', email, '--role', 'editor', '--new-link')
  expect([updated['role'], await use(again['link'])]).toEqual(['admin', 200])
})

it('a link for a new password stays when its user gets another name or fewer rights', async () => {
  const { email } = await newPerson(server, 'steady@example.com', ['--role', 'editor'])
  const { link } = await cli('users', 'update', email, '--new-link')
  await cli('users', 'update', email, '--name', 'Steady')
  await cli('users', 'update', email, '--role', 'member')
  expect(await use(link)).toBe(200)
})

it('a new password for a user of a foreign team takes the permission to add people to it', async () => {
  const { email } = await newPerson(server, 'insider@example.com')
  await cli('teams', 'create', 'finance')
  await cli('teams', 'add', 'finance', email)
  const ask = (cookie: string) => callAs({ cookie }, 'user_update', { user: email, new_link: true })
  expect(await ask(helper)).toMatchObject({ status: 403, error: { details: { permission: 'userTeam:update' } } })
  await cli('teams', 'add', 'finance', 'helper@example.com')
  const joined = await signIn(server, { email: 'helper@example.com', password: PASSWORD })
  expect(await ask(joined)).toMatchObject({ status: 200 })
})

it('a link for a new password ends when its user joins a team, and stays when the user was in it', async () => {
  const { email } = await newPerson(server, 'joining@example.com')
  await cli('teams', 'create', 'treasury')
  const { link } = await callAs({ cookie: helper }, 'user_update', { user: email, new_link: true })
  await cli('teams', 'add', 'treasury', email)
  expect(await use(link)).toBe(404)
  const again = await cli('users', 'update', email, '--new-link')
  await cli('teams', 'add', 'treasury', email)
  expect(await use(again['link'])).toBe(200)
})

it('links that a user created end with the user, and with the rights that they took', async () => {
  await newRole('recruiter', ['invitation:create', 'apiKey:create', 'task:read', 'task:create'])
  await newRole('reader', ['invitation:create', 'task:read'])
  const { email } = await newPerson(server, 'leaving@example.com', ['--role', 'recruiter'])
  const cookie = await signIn(server, { email, password: PASSWORD })
  const invite = async (headers: Record<string, string>, name: string, role: string) =>
    (await callAs(headers, 'invitation_create', { email: `${name}@example.com`, role }))['link']
  const { secret } = await callAs({ cookie }, 'api_key_create', { name: 'spare', role: 'recruiter' })
  const wide = await invite({ cookie }, 'wide', 'recruiter')
  const narrow = await invite({ cookie }, 'narrow', 'reader')
  const ofKey = await invite({ authorization: `Bearer ${secret}` }, 'of-key', 'recruiter')
  const foreign = (await cli('invite', 'create', 'foreign@example.com', '--role', 'recruiter'))['link']
  await cli('users', 'update', email, '--role', 'reader')
  expect([await use(wide), await use(ofKey)]).toEqual([404, 404])
  const last = await invite({ cookie: await signIn(server, { email, password: PASSWORD }) }, 'last', 'reader')
  expect(await use(narrow)).toBe(200)
  await cli('users', 'delete', email, '--yes')
  expect([await use(last), await use(foreign)]).toEqual([404, 200])
})
