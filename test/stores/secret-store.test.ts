import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { newestFirst } from '../../src/contract/list-page.ts'
import { localOwner, type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { SecretLink, StoredSecret } from '../../src/domains/secrets/ports.ts'
import { sqlSecretStore as store } from '../../src/stores/sql/secret-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = 1_767_225_600_000

const secretOf = (tenant: TenantId, id: string, more: Partial<StoredSecret> = {}): StoredSecret => ({
  tenant,
  id,
  owner: 'key:ann',
  purpose: 'token of “ü”',
  keyId: 'k1',
  sealed: 'c2VhbGVk',
  createdAtMs: NOW,
  updatedAtMs: NOW + 1,
  ...more,
})
const linkOf = (tenant: TenantId, id: string, more: Partial<SecretLink> = {}): SecretLink => ({
  tenant,
  id,
  tokenHash: `hash of ${tenant} ${id}`,
  principal: { ...localOwner, tenant },
  kind: 'value',
  subject: 'secret:one',
  title: 'A token',
  fields: [{ name: 'value', label: 'Token', description: '', secret: true, required: true }],
  createdAtMs: NOW,
  expiresAtMs: NOW + 1_000,
  usedAtMs: null,
  ...more,
})

describe.each(dialects)('secrets in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())
  const put = (secret: StoredSecret) =>
    database.write(secret.tenant, (tx) => store.putSecret(tx, secret.tenant, secret))
  const insert = (link: SecretLink) => database.write(link.tenant, (tx) => store.insertLink(tx, link.tenant, link))

  it('keep every field, and are replaced in place', async () => {
    const secret = secretOf(ACME, 'one')
    await put(secret)
    expect(await store.findSecret(database.read, ACME, 'one')).toEqual(secret)
    const changed = { ...secret, keyId: 'k2', sealed: 'YWdhaW4=', updatedAtMs: NOW + 5 }
    await put(changed)
    expect(await store.listSecrets(database.read, ACME, { owner: undefined }).rows(newestFirst.first, 10)).toEqual([
      changed,
    ])
  })

  it('are found by their own tenant alone, and removed there alone', async () => {
    for (const tenant of [ACME, OTHER]) await put(secretOf(tenant, 'one'))
    expect(await database.write(ACME, (tx) => store.deleteSecret(tx, ACME, 'one'))).toBe(true)
    expect(await database.write(ACME, (tx) => store.deleteSecret(tx, ACME, 'one'))).toBe(false)
    expect(await store.findSecret(database.read, ACME, 'one')).toBeUndefined()
    expect(await store.findSecret(database.read, OTHER, 'one')).toBeDefined()
    await expect(database.write(ACME, (tx) => store.putSecret(tx, OTHER, secretOf(OTHER, 'two')))).rejects.toThrow()
  })

  it('are listed for one owner, or for all, the newest first', async () => {
    await put(secretOf(ACME, 'a'))
    await put(secretOf(ACME, 'b', { owner: 'key:bob', createdAtMs: NOW + 1 }))
    const ids = async (owner: string | undefined, limit = 10) =>
      (await store.listSecrets(database.read, ACME, { owner }).rows(newestFirst.first, limit)).map(({ id }) => id)
    expect(await ids(undefined)).toEqual(['b', 'a'])
    expect(await ids('key:ann')).toEqual(['a'])
    expect(await ids(undefined, 1)).toEqual(['b'])
  })

  it('are found by the key that they are not encrypted with, unless they have no value', async () => {
    await put(secretOf(ACME, 'a'))
    await put(secretOf(ACME, 'b', { keyId: 'k2' }))
    await put(secretOf(ACME, 'c', { keyId: '', sealed: '' }))
    await put(secretOf(ACME, 'd'))
    const others = async (after: string, limit: number) =>
      (await store.listOfOtherKeys(database.read, ACME, 'k2', after, limit)).map(({ id }) => id)
    expect(await others('', 1)).toEqual(['a'])
    expect(await others('a', 10)).toEqual(['d'])
    expect(await others('d', 10)).toEqual([])
  })

  it('have links that keep every field, are used once, and are forgotten', async () => {
    const link = linkOf(ACME, 'l1')
    await insert(link)
    expect(await store.findLinkByToken(database.read, link.tokenHash)).toEqual(link)
    expect(await store.findLinkByToken(database.read, 'another')).toBeUndefined()
    const use = (tenant: TenantId) => database.write(tenant, (tx) => store.useLink(tx, tenant, 'l1', NOW + 7))
    expect(await use(OTHER)).toBe(false)
    expect(await use(ACME)).toBe(true)
    expect(await use(ACME)).toBe(false)
    expect((await store.findLinkByToken(database.read, link.tokenHash))?.usedAtMs).toBe(NOW + 7)
    await insert(linkOf(OTHER, 'l1'))
    await database.write(ACME, (tx) => store.deleteLinksBefore(tx, ACME, NOW + 1_000))
    expect(await store.findLinkByToken(database.read, link.tokenHash)).toBeDefined()
    await database.write(ACME, (tx) => store.deleteLinksBefore(tx, ACME, NOW + 1_001))
    expect(await store.findLinkByToken(database.read, link.tokenHash)).toBeUndefined()
    expect(await store.findLinkByToken(database.read, linkOf(OTHER, 'l1').tokenHash)).toBeDefined()
  })
})
