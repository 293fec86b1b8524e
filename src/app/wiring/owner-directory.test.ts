import { describe, expect, onTestFinished, test } from 'vitest'
import { dialects, openEmpty } from '../../../test/support/databases.ts'
import { permissionsOfRole } from '../../contract/permissions.ts'
import { LOCAL_OWNER, LOCAL_TENANT, localOwner, type Principal, tenantId } from '../../contract/principal.ts'
import type { ApiKey } from '../../domains/identity/ports.ts'
import { sqlApiKeyStore } from '../../stores/sql/api-key-store.ts'
import { createOwnerDirectory } from './owner-directory.ts'

const NOW_MS = 1_000_000
const key = (id: string, more: Partial<ApiKey> = {}): ApiKey => ({
  tenant: LOCAL_TENANT,
  id,
  prefix: `prefix-${id}`,
  hash: 'hash',
  name: id,
  role: 'member',
  tier: 'user',
  scopes: null,
  createdAtMs: 0,
  createdBy: 'owner',
  expiresAtMs: null,
  lastUsedAtMs: null,
  revokedAtMs: null,
  userId: null,
  ...more,
})

describe.each(dialects)('the directory of owners, over %s', (dialect) => {
  async function open(...keys: readonly ApiKey[]) {
    const database = await openEmpty(dialect)
    onTestFinished(() => database.close())
    for (const one of keys)
      await database.write(LOCAL_TENANT, (write) => sqlApiKeyStore.insertKey(write, LOCAL_TENANT, one))
    const directory = createOwnerDirectory({ nowMs: () => NOW_MS })
    return { directory, read: database.read }
  }

  test('has the local person and the keys that are live, and nobody else', async () => {
    const { directory, read } = await open(
      key('live', { expiresAtMs: NOW_MS + 1 }),
      key('expired', { expiresAtMs: NOW_MS }),
      key('revoked', { revokedAtMs: 5 }),
    )
    const isRevoked = (owner: string, tenant = LOCAL_TENANT) => directory.isRevoked(read, tenant, owner)
    expect(await isRevoked(LOCAL_OWNER)).toBe(false)
    expect(await isRevoked('key:live')).toBe(false)
    expect(await isRevoked('key:live', tenantId('other'))).toBe(true)
    for (const owner of ['key:expired', 'key:revoked', 'key:unknown', 'user:ann', 'agent:worker', 'live', 'key:', '']) {
      expect(await isRevoked(owner), owner).toBe(true)
    }
  })

  test('gives what a key left to a key of the same name with at least its rights', async () => {
    const { directory, read } = await open(
      key('before', { name: 'ci', role: 'editor', revokedAtMs: 5 }),
      key('after', { name: 'ci', role: 'editor' }),
      key('lesser', { name: 'ci2', role: 'member' }),
    )
    const rightsOf = (role: 'editor' | 'member') => ({ role, permissions: permissionsOfRole(role) })
    const successor: Principal = { ...localOwner, kind: 'key', keyId: 'after', tier: 'user', ...rightsOf('editor') }
    expect(await directory.isSuccessor(read, successor, 'key:before')).toBe(true)
    expect(await directory.isSuccessor(read, { ...successor, ...rightsOf('member') }, 'key:before')).toBe(false)
    expect(await directory.isSuccessor(read, { ...successor, keyId: 'lesser' }, 'key:before')).toBe(false)
    expect(await directory.isSuccessor(read, successor, 'user:ann')).toBe(false)
    expect(await directory.isSuccessor(read, localOwner, 'key:before')).toBe(false)
  })
})
