import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createAccounts } from '../../src/accounts/create-accounts.ts'
import type { Database } from '../../src/contract/database.ts'
import { lastWrittenFirst } from '../../src/contract/list-page.ts'
import { LOCAL_TENANT, type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import { createPasswords } from '../../src/domains/people/password.ts'
import type { Invitation, User } from '../../src/domains/people/ports.ts'
import { createPeoplePrincipals } from '../../src/domains/people/principals.ts'
import { createSignInGuard } from '../../src/domains/people/sign-in.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { createLibraryDatabase } from '../../src/stores/sql/library-database.ts'
import { sqlPeopleLists } from '../../src/stores/sql/people-lists.ts'
import { sqlPeopleStore as store } from '../../src/stores/sql/people-store.ts'
import { sqlServiceClientStore } from '../../src/stores/sql/service-client-store.ts'
import { CHEAP_PASSWORDS } from '../support/cheap-passwords.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { sqlRoles } from '../support/sql-roles.ts'

const OTHER = tenantId('other')
const NOW_MS = Date.UTC(2026, 10, 17)
const ada: User = {
  tenant: LOCAL_TENANT,
  id: 'user_ada',
  email: 'ada@example.com',
  name: 'Ada',
  role: 'editor',
  tier: 'system',
  createdBy: 'owner',
  createdAtMs: NOW_MS,
}
const invitation: Invitation = {
  tenant: LOCAL_TENANT,
  id: 'inv_1',
  tokenHash: 'h',
  email: 'bob@example.com',
  role: 'member',
  tier: 'user',
  teams: ['team_1'],
  userId: null,
  createdBy: 'owner',
  createdAtMs: NOW_MS,
  expiresAtMs: NOW_MS + 1000,
  acceptedAtMs: null,
  cancelledAtMs: null,
}

describe.each(dialects)('people in %s', (dialect) => {
  let database: Database
  const write = <T>(work: (tx: WriteTx) => Promise<T>): Promise<T> => database.write(LOCAL_TENANT, work)

  beforeEach(async () => {
    database = await openEmpty(dialect)
    await write((tx) => store.insertUser(tx, ada))
  })
  afterEach(() => database.close())

  test('a user is found in their own organisation alone', async () => {
    expect(await store.findUser(database.read, LOCAL_TENANT, ada.id)).toEqual(ada)
    expect(await store.findUser(database.read, OTHER, ada.id)).toBeUndefined()
    expect(await store.listUsers(database.read, OTHER, 10)).toEqual([])
    await write((tx) => store.deleteUser(tx, OTHER, ada.id))
    expect(await store.countUsers(database.read)).toBe(1)
  })

  test('a team and its members go with each other', async () => {
    const team = { tenant: LOCAL_TENANT, id: 'team_1', name: 'design', description: '', createdBy: 'o', createdAtMs: 1 }
    await write((tx) => store.insertTeam(tx, team))
    await write((tx) => store.addMember(tx, LOCAL_TENANT, team.id, ada.id))
    await write((tx) => store.addMember(tx, LOCAL_TENANT, team.id, ada.id))
    expect(await store.teamsOf(database.read, ada.id)).toEqual([team.id])
    expect(await store.findTeam(database.read, OTHER, 'design')).toBeUndefined()
    await write((tx) => store.deleteTeam(tx, LOCAL_TENANT, team.id))
    expect(await store.teamsOf(database.read, ada.id)).toEqual([])
  })

  test('who has a role is counted in one organisation, with the invitations that can still be accepted', async () => {
    const counted = (tenant: TenantId) => store.countOfRole(database.read, tenant, 'reader', NOW_MS)
    expect(await counted(LOCAL_TENANT)).toEqual({ users: 0, invitations: 0 })
    for (const [index, tenant] of [LOCAL_TENANT, LOCAL_TENANT, OTHER].entries()) {
      const one = { ...ada, tenant, id: `user_${index}`, email: `${index}@example.com`, role: 'reader' }
      await write((tx) => store.insertUser(tx, one))
    }
    const invite = (id: string, more: Partial<Invitation>) =>
      write((tx) => store.insertInvitation(tx, { ...invitation, id, tokenHash: id, role: 'reader', ...more }))
    await invite('open', {})
    await invite('elsewhere', { tenant: OTHER })
    await invite('another', { role: 'member' })
    await invite('over', { expiresAtMs: NOW_MS })
    await invite('accepted', { acceptedAtMs: NOW_MS })
    await invite('cancelled', { cancelledAtMs: NOW_MS })
    await invite('password', { userId: 'user_0' })
    expect(await counted(LOCAL_TENANT)).toEqual({ users: 2, invitations: 1 })
    expect(await counted(OTHER)).toEqual({ users: 1, invitations: 1 })
  })

  test('an invitation ends once', async () => {
    await write((tx) => store.insertInvitation(tx, invitation))
    expect(await store.findInvitationByHash(database.read, 'h')).toEqual(invitation)
    const both = await Promise.all([
      write((tx) => store.acceptInvitation(tx, LOCAL_TENANT, invitation.id, NOW_MS)),
      write((tx) => store.cancelInvitation(tx, LOCAL_TENANT, invitation.id, NOW_MS)),
    ])
    expect(both).toEqual([true, false])
  })

  test('who can sign in has a password, in one organisation', async () => {
    const others = [
      { ...ada, id: 'user_bob', email: 'bob@example.com' },
      { ...ada, id: 'user_eve', email: 'eve@example.com', tenant: OTHER },
    ]
    for (const user of others) await write((tx) => store.insertUser(tx, user))
    for (const userId of [ada.id, 'user_eve'])
      await write((tx) => store.setPassword(tx, { id: `acc_${userId}`, userId, hash: 'h', atMs: NOW_MS }))
    expect(await store.listUsersWithSignIn(database.read, LOCAL_TENANT)).toEqual([ada.id])
    expect(await store.listUsersWithSignIn(database.read, OTHER)).toEqual(['user_eve'])
  })

  /** The accounts of better-auth over the same store, with a password for Ada. */
  async function openAccounts() {
    const passwords = createPasswords(systemRandom, CHEAP_PASSWORDS)
    const hash = await passwords.hash('correct horse battery')
    await write((tx) => store.setPassword(tx, { id: 'acc', userId: ada.id, hash, atMs: NOW_MS }))
    const secret = systemRandom.bytes(32).toString('base64url')
    const accounts = createAccounts({
      db: createLibraryDatabase(database),
      fetchDocument: fetch,
      clock: systemClock,
      secret,
      passwords,
      random: systemRandom,
      logger: silentLogger,
      providers: [],
      devices: {} as never,
    })
    return { accounts, secret }
  }

  test('better-auth signs in over the same store, and we read its sessions without it', async () => {
    const { accounts, secret } = await openAccounts()
    const origin = 'https://castellan.example'
    const from = new Headers({ 'x-castellan-client': '203.0.113.9' })
    expect(await accounts.signIn(origin, { email: ada.email, password: 'wrong password' }, from)).toBeUndefined()
    expect(await accounts.signIn(origin, { email: 'no@example.com', password: 'wrong' }, from)).toBeUndefined()
    const cookies = await accounts.signIn(origin, { email: ada.email, password: 'correct horse battery' }, from)
    const cookie = cookies![0]!.split(';')[0]!
    expect(cookies![0]).toMatch(/^__Secure-castellan\.session_token=.*HttpOnly.*Secure|Secure.*HttpOnly/)
    const shown = { address: '203.0.113.9', isLoopback: false, resource: '' }
    const principals = createPeoplePrincipals({
      store,
      clients: sqlServiceClientStore,
      roles: sqlRoles,
      read: database.read,
      secret,
    })
    const nowMs = Date.now()
    expect(await principals.ofCookie(cookie, shown, nowMs)).toMatchObject({
      user: ada.id,
      role: 'editor',
      tier: 'system',
    })
    const forged = `${cookie.slice(0, -6)}AAAA%3D`
    await expect(principals.ofCookie(forged, shown, nowMs)).rejects.toMatchObject({ code: 'ERR_UNAUTHENTICATED' })
    await write((tx) => store.deleteAllSessions(tx, ada.id))
    principals.forget()
    await expect(principals.ofCookie(cookie, shown, nowMs)).rejects.toMatchObject({ code: 'ERR_UNAUTHENTICATED' })
  })

  test('a session that began on this machine is good on this machine alone', async () => {
    const { accounts, secret } = await openAccounts()
    const from = new Headers({ 'x-castellan-client': '127.0.0.1' })
    const input = { email: ada.email, password: 'correct horse battery' }
    const cookie = (await accounts.signIn('http://127.0.0.1:7433', input, from))![0]!.split(';')[0]!
    const principals = createPeoplePrincipals({
      store,
      clients: sqlServiceClientStore,
      roles: sqlRoles,
      read: database.read,
      secret,
    })
    const here = { address: '127.0.0.1', isLoopback: true, resource: '' }
    const there = { address: '203.0.113.9', isLoopback: false, resource: '' }
    const nowMs = Date.now()
    expect(await principals.ofCookie(cookie, here, nowMs)).toMatchObject({ user: ada.id })
    await expect(principals.ofCookie(cookie, there, nowMs)).rejects.toMatchObject({ code: 'ERR_UNAUTHENTICATED' })
  })

  test('clients that nobody allowed make room, the oldest first', async () => {
    const at = (ms: number) => new Date(NOW_MS + ms).toISOString()
    const session = createLibraryDatabase(database) as unknown as import('kysely').Kysely<
      Record<string, Record<string, unknown>>
    >
    for (const [index, id] of ['old', 'allowed', 'new'].entries()) {
      const createdAt = at(index)
      await session.insertInto('oauth_clients').values({ id, clientId: id, redirectUris: '[]', createdAt }).execute()
    }
    await session
      .insertInto('oauth_consents')
      .values({ id: 'c', clientId: 'allowed', userId: ada.id, scopes: '[]', createdAt: at(0), updatedAt: at(0) })
      .execute()
    const left = async () =>
      (await session.selectFrom('oauth_clients').select('id').orderBy('id').execute()).map(({ id }) => id)
    const service = {
      tenant: LOCAL_TENANT,
      id: 'service',
      name: 's',
      secretHash: 'h',
      role: 'member',
      tier: 'user',
    } as const
    const more = { gateways: [], createdAtMs: NOW_MS - 1, createdBy: 'owner' }
    await write((tx) => sqlServiceClientStore.insertClient(tx, { ...service, ...more }))
    expect(await store.countClients(database.read)).toBe(4)
    expect(await write((tx) => store.deleteUnusedClients(tx, 1))).toBe(true)
    expect(await left()).toEqual(['allowed', 'new', 'service'])
    expect(await write((tx) => store.deleteUnusedClients(tx, 10))).toBe(true)
    expect(await left()).toEqual(['allowed', 'service'])
    expect(await write((tx) => store.deleteUnusedClients(tx, 10))).toBe(false)
  })

  test('a revoked client cannot redeem the codes that it has', async () => {
    const at = new Date(NOW_MS).toISOString()
    const session = createLibraryDatabase(database) as unknown as import('kysely').Kysely<
      Record<string, Record<string, unknown>>
    >
    const times = { createdAt: at, updatedAt: at }
    for (const clientId of ['mine', 'other']) {
      await session.insertInto('oauth_clients').values({ id: clientId, clientId, redirectUris: '[]' }).execute()
      const consent = { id: `c-${clientId}`, clientId, userId: ada.id, scopes: '[]', ...times }
      await session.insertInto('oauth_consents').values(consent).execute()
      // As better-auth writes it.
      const value = JSON.stringify({ type: 'authorization_code', query: { client_id: clientId }, userId: ada.id })
      const code = { id: clientId, identifier: `hash of ${clientId}`, value, expiresAt: at, ...times }
      await session.insertInto('user_verifications').values(code).execute()
    }
    const left = async () => (await session.selectFrom('user_verifications').select('id').execute()).map(({ id }) => id)
    expect(await write((tx) => store.deleteGrant(tx, ada.id, 'c-mine'))).toBe(true)
    expect(await left()).toEqual(['other'])
    await write((tx) => store.deleteAllSessions(tx, ada.id))
    expect(await left()).toEqual([])
  })

  test('attempts are recorded, and slowed after a few failures until one succeeds', async () => {
    const guard = createSignInGuard({ store, database })
    const attempt = (nowMs: number) => ({ email: ada.email, address: '203.0.113.9', nowMs })
    for (let count = 0; count < 5; count++) {
      const release = await guard.admit(attempt(NOW_MS + count))
      await guard.note(attempt(NOW_MS + count), 'refused')
      release()
    }
    await expect(guard.admit(attempt(NOW_MS + 10))).rejects.toMatchObject({ code: 'ERR_RATE_LIMITED' })
    const release = await guard.admit(attempt(NOW_MS + 20_000))
    await guard.note(attempt(NOW_MS + 20_000), 'signed_in')
    release()
    await guard.admit(attempt(NOW_MS + 20_001))
    const attempts = (tenant: TenantId) =>
      sqlPeopleLists.attempts(database.read, tenant, {}).rows(lastWrittenFirst.first, 100)
    const outcomes = (await attempts(LOCAL_TENANT)).map(({ outcome }) => outcome)
    expect(outcomes).toEqual(['signed_in', 'slowed', 'refused', 'refused', 'refused', 'refused', 'refused'])
    expect(await attempts(OTHER)).toEqual([])
  })
})
