import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { localOwner, type Principal, tenantId } from '../../src/contract/principal.ts'
import { viewerOf } from '../../src/contract/sharing.ts'
import type { VirtualKey } from '../../src/domains/model-proxies/ports.ts'
import { sharedTeams } from '../../src/stores/sql/sharing.ts'
import { sqlVirtualKeyStore as store } from '../../src/stores/sql/virtual-key-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')

const keyOf = (id: string, more: Partial<VirtualKey> = {}): VirtualKey => ({
  tenant: ACME,
  id,
  prefix: `p-${id}`,
  hash: `h-${id}`,
  name: 'name',
  sharing: { scope: 'personal', author: 'user:ann', teams: [] },
  grants: { proxies: null, providers: ['openai'], models: ['gpt-*'], providerKeys: { openai: 'pkey_1' } },
  createdAtMs: 1,
  createdBy: 'ann',
  rotatedAtMs: null,
  expiresAtMs: 9,
  lastUsedAtMs: null,
  revokedAtMs: null,
  ...more,
})
const ann: Principal = { ...localOwner, tenant: ACME, kind: 'user', user: 'ann', teams: ['t1'], permissions: new Set() }

describe.each(dialects)('virtual keys in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())
  const insert = (...keys: VirtualKey[]) =>
    database.write(ACME, async (tx) => {
      for (const key of keys) await store.insertKey(tx, ACME, key)
    })

  it('keep every field, and are not there for another tenant', async () => {
    const sharing = { scope: 'team', author: 'user:ann', teams: ['t1', 't2'] } as const
    const key = keyOf('one', { sharing, rotatedAtMs: 2, lastUsedAtMs: 3, revokedAtMs: 4 })
    await insert(key)
    expect(await store.findKey(database.read, ACME, 'one')).toEqual(key)
    expect(await store.findByPrefix(database.read, 'p-one')).toEqual(key)
    expect(await store.findKey(database.read, OTHER, 'one')).toBeUndefined()
    expect(await store.findNamed(database.read, OTHER, 'name')).toEqual([])
    expect(await store.listKeys(database.read, OTHER, viewerOf(ann, 'llmVirtualKey'), 10)).toEqual([])
    await expect(insert(keyOf('two', { prefix: 'p-one' }))).rejects.toThrow()
  })

  it('are revoked and replaced once, and touched only forwards', async () => {
    await insert(keyOf('one'))
    const once = await database.write(ACME, async (tx) => {
      await store.touchKey(tx, ACME, 'one', 5)
      await store.touchKey(tx, ACME, 'one', 4)
      const replaced = await store.replaceSecret(tx, ACME, 'one', { prefix: 'p2', hash: 'h2', atMs: 6 })
      const revoked = [await store.revokeKey(tx, ACME, 'one', 7), await store.revokeKey(tx, ACME, 'one', 8)]
      return [replaced, ...revoked, await store.replaceSecret(tx, ACME, 'one', { prefix: 'p3', hash: 'h3', atMs: 9 })]
    })
    expect(once).toEqual([true, true, false, false])
    const now = { prefix: 'p2', hash: 'h2', rotatedAtMs: 6, lastUsedAtMs: 5, revokedAtMs: 7 }
    expect(await store.findKey(database.read, ACME, 'one')).toEqual(keyOf('one', now))
    expect(await store.findNamed(database.read, ACME, 'name')).toEqual([])
    expect(await store.countOf(database.read, ACME, 'user:ann')).toBe(0)
  })

  it('are listed for those who see them, newest first, and lose teams that are gone', async () => {
    const ofTeam = { scope: 'team', author: 'user:bob', teams: ['t1'] } as const
    const hidden = { scope: 'personal', author: 'user:bob', teams: [] } as const
    await insert(
      keyOf('own', { createdAtMs: 1 }),
      keyOf('team', { sharing: ofTeam, createdAtMs: 2 }),
      keyOf('all', { sharing: { ...hidden, scope: 'org' }, createdAtMs: 3 }),
      keyOf('hidden', { sharing: hidden, createdAtMs: 4 }),
    )
    const list = async () => await store.listKeys(database.read, ACME, viewerOf(ann, 'llmVirtualKey'), 10)
    expect((await list()).map(({ id }) => id)).toEqual(['all', 'team', 'own'])
    expect(await store.countOf(database.read, ACME, 'user:bob')).toBe(3)
    await database.write(ACME, (tx) => sharedTeams.forgetTeam(tx, ACME, 't1'))
    expect((await store.findKey(database.read, ACME, 'team'))!.sharing.teams).toEqual([])
    expect((await list()).map(({ id }) => id)).toEqual(['all', 'own'])
  })
})
