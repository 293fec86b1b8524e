import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { newestFirst } from '../../src/contract/list-page.ts'
import { localOwner, type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { ApiKey } from '../../src/domains/identity/ports.ts'
import { createIdentityService, type KeyWriting } from '../../src/domains/identity/service.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { sqlApiKeyStore as store } from '../../src/stores/sql/api-key-store.ts'
import { sqlRoleStore } from '../../src/stores/sql/role-store.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = 1_767_225_600_000

let count = 0
const keyOf = (tenant: TenantId, more: Partial<ApiKey> = {}): ApiKey => {
  count += 1
  return {
    tenant,
    id: `key_${count}`,
    prefix: `p${count}`,
    hash: 'ab'.repeat(32),
    name: `name-${count}`,
    role: 'editor',
    tier: 'system',
    scopes: ['task:read', 'trail:read'],
    createdAtMs: NOW + count,
    createdBy: 'owner',
    expiresAtMs: null,
    lastUsedAtMs: null,
    revokedAtMs: null,
    userId: null,
    ...more,
  }
}

/** What every API key store promises; `open` gives an empty database. */
export function apiKeyStoreSuite(name: string, open: () => Promise<Database>): void {
  describe(`API keys in ${name}`, () => {
    let database: Database
    const insert = (key: ApiKey) => database.write(key.tenant, (tx) => store.insertKey(tx, key.tenant, key))

    beforeEach(async () => {
      database = await open()
    })
    afterEach(() => database.close())

    it('keeps every field of a key', async () => {
      const full = keyOf(ACME, { expiresAtMs: NOW + 5, lastUsedAtMs: NOW + 1, revokedAtMs: NOW + 2 })
      const bare = keyOf(ACME, { scopes: null })
      await insert(full)
      await insert(bare)
      expect(await store.findKey(database.read, ACME, full.id)).toEqual(full)
      expect(await store.findKeyByPrefix(database.read, full.prefix)).toEqual(full)
      expect(await store.findKey(database.read, ACME, bare.id)).toEqual(bare)
      expect(await store.listKeys(database.read, ACME, {}).rows(newestFirst.first, 10)).toEqual([bare, full])
      expect(await store.listKeys(database.read, ACME, {}).rows(newestFirst.first, 1)).toEqual([bare])
    })

    it('lists the live keys with a role', async () => {
      const has = async (tenant: TenantId, role: string) =>
        (await store.listLiveKeysOfRole(database.read, tenant, role, NOW)).length > 0
      await insert(keyOf(ACME, { role: 'reader', revokedAtMs: NOW }))
      await insert(keyOf(ACME, { role: 'reader', expiresAtMs: NOW }))
      await insert(keyOf(OTHER, { role: 'reader' }))
      expect([await has(ACME, 'reader'), await has(OTHER, 'reader'), await has(OTHER, 'other')]).toEqual([
        false,
        true,
        false,
      ])
      await insert(keyOf(ACME, { role: 'reader', expiresAtMs: NOW + 1 }))
      expect(await has(ACME, 'reader')).toBe(true)
    })

    it('finds the live key of a name among revoked and expired ones', async () => {
      await insert(keyOf(ACME, { name: 'ann', revokedAtMs: NOW }))
      await insert(keyOf(ACME, { name: 'ann', expiresAtMs: NOW }))
      expect(await store.findLiveKeyByName(database.read, ACME, 'ann', NOW)).toBeUndefined()
      const live = keyOf(ACME, { name: 'ann', expiresAtMs: NOW + 1 })
      await insert(live)
      expect(await store.findLiveKeyByName(database.read, ACME, 'ann', NOW)).toEqual(live)
    })

    it('lists the keys of a user that are not revoked, oldest first', async () => {
      const [first, second] = [keyOf(ACME, { userId: 'ann' }), keyOf(ACME, { userId: 'ann', expiresAtMs: NOW })]
      const others = [keyOf(ACME, { userId: 'ann', revokedAtMs: NOW }), keyOf(ACME, { userId: 'bob' })]
      for (const key of [second, first, ...others, keyOf(OTHER, { userId: 'ann' }), keyOf(ACME)]) await insert(key)
      expect(await store.listKeysOfUser(database.read, ACME, 'ann')).toEqual([first, second])
    })

    it('revokes once and moves the last use only forward', async () => {
      const key = keyOf(ACME)
      await insert(key)
      const revoke = (atMs: number) => database.write(ACME, (tx) => store.revokeKey(tx, ACME, key.id, atMs))
      const touch = (atMs: number) => database.write(ACME, (tx) => store.touchKey(tx, ACME, key.id, atMs))
      expect([await revoke(NOW + 1), await revoke(NOW + 2)]).toEqual([true, false])
      for (const atMs of [NOW + 5, NOW + 9, NOW + 7]) await touch(atMs)
      expect(await store.findKey(database.read, ACME, key.id)).toEqual({
        ...key,
        revokedAtMs: NOW + 1,
        lastUsedAtMs: NOW + 9,
      })
    })

    it('treats the keys of another tenant as absent', async () => {
      const key = keyOf(ACME)
      await insert(key)
      expect(await store.findKey(database.read, OTHER, key.id)).toBeUndefined()
      expect(await store.findLiveKeyByName(database.read, OTHER, key.name, NOW)).toBeUndefined()
      expect(await store.listKeys(database.read, OTHER, {}).rows(newestFirst.first, 10)).toEqual([])
      await database.write(OTHER, async (tx) => {
        expect(await store.revokeKey(tx, OTHER, key.id, NOW)).toBe(false)
        await store.touchKey(tx, OTHER, key.id, NOW)
      })
      expect(await store.findKey(database.read, ACME, key.id)).toEqual(key)
    })

    it('refuses a prefix that is in use, and noting a use with the transaction of another tenant', async () => {
      const key = keyOf(ACME)
      await insert(key)
      await expect(insert(keyOf(OTHER, { prefix: key.prefix }))).rejects.toThrow()
      expect(await store.listKeys(database.read, OTHER, {}).rows(newestFirst.first, 10)).toEqual([])
      const foreign = database.write(OTHER, (tx) => store.touchKey(tx, ACME, key.id, NOW))
      await expect(foreign).rejects.toThrow()
      expect(await store.findKey(database.read, ACME, key.id)).toEqual(key)
    })

    it('carries a key from its creation to its end', async () => {
      const identity = createIdentityService({
        roles: sqlRoleStore,
        store,
        random: systemRandom,
        read: database.read,
        noteRevoked() {},
        noteUse: (tenant, id, atMs) => void database.writeSoon(tenant, (tx) => store.touchKey(tx, tenant, id, atMs)),
      })
      const tenant = 'acme'
      const context = { principal: localOwner, nowMs: NOW, record() {} }
      const input = { name: 'ann', role: 'member', tier: 'user', scopes: ['task:*'], tenant }
      const manage = <T>(work: (context: KeyWriting) => Promise<T>): Promise<T> =>
        database.write(localOwner.tenant, (tx) => work({ ...context, read: tx, write: tx }))
      const create = () => manage((managing) => identity.createKey(managing, input))
      const outcomes = await Promise.allSettled([create(), create(), create()])
      const created = outcomes.filter((outcome) => outcome.status === 'fulfilled').map((outcome) => outcome.value)
      expect(created).toHaveLength(1)
      const { secret, id } = created[0]!
      expect(await identity.authenticate(secret, NOW)).toMatchObject({ tenant: 'acme', actor: 'ann', keyId: id })
      await database.flush()
      expect((await identity.listKeys({ ...context, read: database.read }, { tenant })).keys).toMatchObject([
        {
          id,
          status: 'live',
          last_used_at: new Date(NOW).toISOString(),
          scopes: ['task:create', 'task:read', 'task:update'],
        },
      ])
      await manage((managing) => identity.revokeKey(managing, { key: 'ann', tenant }))
      await expect(identity.authenticate(secret, NOW)).rejects.toMatchObject({ code: 'ERR_UNAUTHENTICATED' })
    })
  })
}
