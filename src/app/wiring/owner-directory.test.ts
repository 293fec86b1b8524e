import { describe, expect, onTestFinished, test } from 'vitest'
import { dialects, openEmpty } from '../../../test/support/databases.ts'
import { type Permission, permissionsOfRole } from '../../contract/permissions.ts'
import { LOCAL_OWNER, LOCAL_TENANT, localOwner, type Principal, tenantId } from '../../contract/principal.ts'
import { readPrincipal, writePrincipal } from '../../contract/stored-principal.ts'
import type { ApiKey } from '../../domains/identity/ports.ts'
import type { User } from '../../domains/people/ports.ts'
import { principalOfUser } from '../../domains/people/rules.ts'
import { sqlApiKeyStore } from '../../stores/sql/api-key-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlRoleStore } from '../../stores/sql/role-store.ts'
import { sqlServiceClientStore } from '../../stores/sql/service-client-store.ts'
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
    return { directory, read: database.read, database }
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

  /** A store with the custom role `reader`. */
  async function openWithRole(...keys: readonly ApiKey[]) {
    const opened = await open(...keys)
    const { database } = opened
    const role = { tenant: LOCAL_TENANT, name: 'reader', description: '', createdAtMs: 0, createdBy: 'owner' }
    const permissions: readonly Permission[] = ['agent:read', 'task:read']
    await database.write(LOCAL_TENANT, (tx) => sqlRoleStore.insertRole(tx, LOCAL_TENANT, { ...role, permissions }))
    const deleteRole = () => database.write(LOCAL_TENANT, (tx) => sqlRoleStore.deleteRole(tx, LOCAL_TENANT, 'reader'))
    return { ...opened, permissions: new Set(permissions), deleteRole }
  }

  test('keys and clients end with their custom role', async () => {
    const { directory, read, database, deleteRole } = await openWithRole(key('reading', { role: 'reader' }))
    const client = { tenant: LOCAL_TENANT, id: 'client_1', name: 'c', secretHash: 'h', role: 'reader' }
    const more = { tier: 'user', gateways: [], createdAtMs: 0, createdBy: 'owner' } as const
    await database.write(LOCAL_TENANT, (tx) => sqlServiceClientStore.insertClient(tx, { ...client, ...more }))
    const revoked = async () => [
      await directory.isRevoked(read, LOCAL_TENANT, 'key:reading'),
      await directory.isRevoked(read, LOCAL_TENANT, 'key:client_1'),
    ]
    expect(await revoked()).toEqual([false, false])
    await deleteRole()
    expect(await revoked()).toEqual([true, true])
  })

  test('what a user started has exactly the rights of their custom role, and none without the role', async () => {
    const { directory, read, database, permissions, deleteRole } = await openWithRole()
    const user = { tenant: LOCAL_TENANT, id: 'ann', email: 'ann@example.com', name: 'Ann', role: 'reader' }
    const ann: User = { ...user, tier: 'user', createdBy: 'owner', createdAtMs: 0 }
    await database.write(LOCAL_TENANT, (tx) => sqlPeopleStore.insertUser(tx, ann))
    const started = readPrincipal(writePrincipal(principalOfUser(ann, permissions, [])))
    expect((await directory.present(read, started))?.permissions).toEqual(permissions)
    const whole = { ...started, permissions: permissionsOfRole('admin') }
    expect((await directory.present(read, whole))?.permissions).toEqual(permissions)
    const change = (role: string) =>
      database.write(LOCAL_TENANT, (tx) => sqlPeopleStore.updateUser(tx, { ...ann, role }, NOW_MS))
    await change('member')
    expect((await directory.present(read, started))?.permissions).toEqual(permissions)
    await change('reader')
    await deleteRole()
    expect((await directory.present(read, started))?.permissions).toEqual(new Set())
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
