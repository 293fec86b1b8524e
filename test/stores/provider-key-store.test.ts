import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { newestFirst } from '../../src/contract/list-page.ts'
import { localOwner, type Principal, tenantId, userIdentity } from '../../src/contract/principal.ts'
import { viewerOf } from '../../src/contract/sharing.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import type { ProviderKey } from '../../src/domains/model-proxies/ports.ts'
import { sqlPeopleStore } from '../../src/stores/sql/people-store.ts'
import { sqlProviderKeyStore as store } from '../../src/stores/sql/provider-key-store.ts'
import { sqlSecretStore } from '../../src/stores/sql/secret-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const ANN = userIdentity('ann')

const keyOf = (id: string, more: Partial<ProviderKey> = {}): ProviderKey => ({
  tenant: ACME,
  id,
  name: 'main',
  provider: 'openai',
  sharing: { scope: 'personal', author: ANN, teams: [] },
  isPrimary: false,
  secret: `secret:sec_${id}`,
  ownsSecret: true,
  createdAtMs: 1,
  createdBy: 'ann',
  rotatedAtMs: null,
  ...more,
})
const ofTeam = (...teams: string[]) => ({ scope: 'team', author: ANN, teams }) as const
const ann: Principal = { ...localOwner, tenant: ACME, kind: 'user', user: 'ann', teams: ['t1'], permissions: new Set() }
const viewer = viewerOf(ann, 'llmProviderApiKey')

describe.each(dialects)('keys of providers in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())
  const write = (work: (tx: WriteTx) => Promise<void>, tenant = ACME) => database.write(tenant, work)
  const ids = async (filter: { providers?: readonly string[] } = {}, who = viewer, tenant = ACME) =>
    (await store.listKeys(database.read, tenant, who, { ...filter, limit: 10 })).map(({ id }) => id)

  it('keep every field, and are found by id, name and secret in their tenant alone', async () => {
    const { read } = database
    const key = keyOf('k', { sharing: ofTeam('t1', 't2'), isPrimary: true, ownsSecret: false, rotatedAtMs: 5 })
    await write((tx) => store.insertKey(tx, ACME, key))
    expect(await store.findKey(read, ACME, 'k')).toEqual(key)
    expect(await store.findNamed(read, ACME, 'main')).toEqual([key])
    expect(await store.listOfSecret(read, ACME, key.secret)).toEqual([key])
    expect(await store.countOf(read, ACME, ANN)).toBe(1)
    for (const found of [
      store.findKey(read, OTHER, 'k'),
      store.findNamed(read, OTHER, 'main').then(([first]) => first),
      store.listOfSecret(read, OTHER, key.secret).then(([first]) => first),
    ]) {
      expect(await found).toBeUndefined()
    }
    const changed = {
      ...key,
      name: 'other',
      isPrimary: false,
      secret: 'secret:sec_2',
      ownsSecret: true,
      rotatedAtMs: 9,
    }
    await write((tx) => store.saveKey(tx, ACME, changed))
    expect(await store.findKey(read, ACME, 'k')).toEqual(changed)
    await write((tx) => store.deleteKey(tx, ACME, 'k'))
    expect(await store.findKey(read, ACME, 'k')).toBeUndefined()
  })

  it('are listed for those whose they are, by provider', async () => {
    await write(async (tx) => {
      await store.insertKey(tx, ACME, keyOf('own'))
      await store.insertKey(tx, ACME, keyOf('own-claude', { provider: 'anthropic', createdAtMs: 2 }))
      await store.insertKey(tx, ACME, keyOf('team', { sharing: ofTeam('t1'), createdAtMs: 3 }))
      await store.insertKey(tx, ACME, keyOf('other-team', { sharing: ofTeam('t2') }))
      await store.insertKey(tx, ACME, keyOf('bob', { sharing: { scope: 'personal', author: 'user:bob', teams: [] } }))
      await store.insertKey(
        tx,
        ACME,
        keyOf('org', { sharing: { scope: 'org', author: 'user:bob', teams: [] }, createdAtMs: 4 }),
      )
    })
    expect(await ids()).toEqual(['org', 'team', 'own-claude', 'own'])
    expect(await ids({ providers: ['openai', 'x'] })).toEqual(['org', 'team', 'own'])
    expect(await ids({ providers: [] })).toEqual([])
    expect(await ids({}, viewer, OTHER)).toEqual([])
  })

  it('end with their user or their last team, with the values that came with them', async () => {
    const { read } = database
    const everyone = { ...viewer, seesEveryTeam: true, seesEveryPersonal: true }
    await write(async (tx) => {
      for (const key of [
        keyOf('own'),
        keyOf('referring', { ownsSecret: false }),
        keyOf('org', { sharing: { scope: 'org', author: ANN, teams: [] } }),
        keyOf('one', { sharing: ofTeam('t1') }),
        keyOf('two', { sharing: ofTeam('t1', 't2') }),
        keyOf('bob', { sharing: { scope: 'personal', author: 'user:bob', teams: [] } }),
      ]) {
        await store.insertKey(tx, ACME, key)
        await sqlSecretStore.putSecret(tx, ACME, {
          ...{ tenant: ACME, id: `sec_${key.id}`, owner: ANN, purpose: '', keyId: '', sealed: '' },
          ...{ createdAtMs: 1, updatedAtMs: 1 },
        })
      }
    })
    const secrets = async () =>
      (await sqlSecretStore.listSecrets(read, ACME, { owner: undefined }).rows(newestFirst.first, 10))
        .map(({ id }) => id.slice('sec_'.length))
        .sort()
    await write((tx) => sqlPeopleStore.deleteUser(tx, ACME, 'ann'))
    expect((await ids({}, everyone)).sort()).toEqual(['bob', 'one', 'org', 'two'])
    expect(await secrets()).toEqual(['bob', 'one', 'org', 'referring', 'two'])
    // By an operator, in the transaction of another tenant.
    await write((tx) => sqlPeopleStore.deleteTeam(tx, ACME, 't1'), OTHER)
    expect((await ids({}, everyone)).sort()).toEqual(['bob', 'org', 'two'])
    expect(await secrets()).toEqual(['bob', 'org', 'referring', 'two'])
  })
})
