import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { LOCAL_TENANT, tenantId } from '../../src/contract/principal.ts'
import type { ServiceClient } from '../../src/domains/people/ports.ts'
import { createPeoplePrincipals } from '../../src/domains/people/principals.ts'
import { hashOfToken } from '../../src/domains/people/rules.ts'
import { createClientTokens } from '../../src/domains/people/service-clients.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { sqlPeopleStore as store } from '../../src/stores/sql/people-store.ts'
import { sqlRoleStore } from '../../src/stores/sql/role-store.ts'
import { sqlServiceClientStore as clients } from '../../src/stores/sql/service-client-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { sqlRoles } from '../support/sql-roles.ts'

const NOW_MS = Date.UTC(2026, 10, 17)
const ORIGIN = 'https://castellan.example'
const client: ServiceClient = {
  tenant: LOCAL_TENANT,
  id: 'client_nightly',
  name: 'nightly',
  secretHash: hashOfToken('csc_secret'),
  role: 'member',
  tier: 'user',
  gateways: ['reports', 'billing'],
  createdBy: 'owner',
  createdAtMs: NOW_MS,
}
const asked = { clientId: client.id, secret: 'csc_secret', origin: ORIGIN, nowMs: NOW_MS }

describe.each(dialects)('clients of programs in %s', (dialect) => {
  let database: Database

  beforeEach(async () => {
    database = await openEmpty(dialect)
    await database.write(LOCAL_TENANT, (tx) => clients.insertClient(tx, client))
  })
  afterEach(() => database.close())

  const tokenFor = async (resource: string): Promise<string> => {
    const given = await createClientTokens({ clients, database, random: systemRandom })({
      ...asked,
      resources: [resource],
    })
    return (given as { access_token: string }).access_token
  }
  const shown = (resource: string) => ({ address: '203.0.113.9', isLoopback: false, resource })
  const principals = () => createPeoplePrincipals({ store, clients, roles: sqlRoles, read: database.read, secret: 's' })

  test('a token makes its bearer the client, at the gateway that it is for and until it is over', async () => {
    const token = await tokenFor(`${ORIGIN}/mcp/reports`)
    const known = principals()
    const at = (resource: string, nowMs = NOW_MS) => known.ofAccessToken(token, shown(resource), nowMs)
    const principal = await at(`${ORIGIN}/mcp/reports`)
    expect(principal).toMatchObject({
      tenant: LOCAL_TENANT,
      kind: 'key',
      actor: 'nightly',
      keyId: client.id,
      role: 'member',
    })
    expect(principal.user).toBeUndefined()
    for (const resource of [`${ORIGIN}/mcp`, `${ORIGIN}/mcp/billing`, 'https://other.example/mcp/reports']) {
      await expect(at(resource)).rejects.toMatchObject({ code: 'ERR_UNAUTHENTICATED' })
    }
    const over = NOW_MS + limits.accessTokenMs
    await expect(at(`${ORIGIN}/mcp/reports`, over)).rejects.toMatchObject({ code: 'ERR_UNAUTHENTICATED' })
  })

  test('a client has what its role grants, and nothing when the role is gone', async () => {
    const worker = { ...client, id: 'client_worker', name: 'worker', role: 'reader' }
    const role = { tenant: LOCAL_TENANT, name: 'reader', description: '', permissions: ['task:read'] as const }
    await database.write(LOCAL_TENANT, async (tx) => {
      await sqlRoleStore.insertRole(tx, LOCAL_TENANT, { ...role, createdAtMs: NOW_MS, createdBy: 'owner' })
      await clients.insertClient(tx, worker)
    })
    expect(await clients.countClientsOfRole(database.read, LOCAL_TENANT, 'reader')).toBe(1)
    expect(await clients.countClientsOfRole(database.read, tenantId('other'), 'reader')).toBe(0)
    const given = await createClientTokens({ clients, database, random: systemRandom })({
      ...asked,
      clientId: worker.id,
      resources: [`${ORIGIN}/mcp/reports`],
    })
    const { access_token } = given as { access_token: string }
    const ofToken = () => principals().ofAccessToken(access_token, shown(`${ORIGIN}/mcp/reports`), NOW_MS)
    expect(await ofToken()).toMatchObject({ role: 'reader', permissions: new Set(['task:read']) })
    await database.write(LOCAL_TENANT, (tx) => sqlRoleStore.deleteRole(tx, LOCAL_TENANT, 'reader'))
    expect((await ofToken()).permissions).toEqual(new Set())
  })

  test('a token ends with its client', async () => {
    const token = await tokenFor(`${ORIGIN}/mcp/reports`)
    await database.write(LOCAL_TENANT, (tx) => clients.deleteClient(tx, tenantId('other'), client.id))
    await principals().ofAccessToken(token, shown(`${ORIGIN}/mcp/reports`), NOW_MS)
    await database.write(LOCAL_TENANT, (tx) => clients.deleteClient(tx, LOCAL_TENANT, client.id))
    const refused = principals().ofAccessToken(token, shown(`${ORIGIN}/mcp/reports`), NOW_MS)
    await expect(refused).rejects.toMatchObject({ code: 'ERR_UNAUTHENTICATED' })
  })

  test('a client whose list is empty gets no token, and another tenant does not see it', async () => {
    const empty = { ...client, id: 'client_empty', name: 'empty', gateways: [] }
    await database.write(LOCAL_TENANT, (tx) => clients.insertClient(tx, empty))
    const ask = createClientTokens({ clients, database, random: systemRandom })
    for (const resources of [[], [`${ORIGIN}/mcp`], [`${ORIGIN}/mcp/`]]) {
      expect(await ask({ ...asked, clientId: empty.id, resources })).toMatchObject({ error: 'invalid_target' })
    }
    expect(await clients.findClient(database.read, tenantId('other'), client.id)).toBeUndefined()
    expect(await clients.listClients(database.read, tenantId('other'), 10)).toEqual([])
  })
})
