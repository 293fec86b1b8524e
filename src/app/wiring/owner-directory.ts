import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import {
  identityOf,
  isBuiltInRole,
  keyIdOf,
  LOCAL_OWNER,
  type Role,
  type TenantId,
  tierAllows,
  userIdOf,
} from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { ApiKey } from '../../domains/identity/ports.ts'
import { grantedBy } from '../../domains/identity/roles.ts'
import { hasRightsOf, keyStatus } from '../../domains/identity/rules.ts'
import { VIRTUAL_KEY_PREFIX } from '../../domains/model-proxies/rules.ts'
import { principalOfUser } from '../../domains/people/rules.ts'
import { SERVICE_CLIENT_PREFIX } from '../../domains/people/service-clients.ts'
import type { Clock } from '../../kernel/clock.ts'
import { sqlApiKeyStore } from '../../stores/sql/api-key-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlRoleStore } from '../../stores/sql/role-store.ts'
import { sqlServiceClientStore } from '../../stores/sql/service-client-store.ts'
import { sqlVirtualKeyStore } from '../../stores/sql/virtual-key-store.ts'

/** The owners of a state: the local owner, keys, clients of programs and users. */
export function createOwnerDirectory(clock: Pick<Clock, 'nowMs'>): OwnerDirectory {
  const isRevoked: OwnerDirectory['isRevoked'] = async (tx, tenant, owner) => {
    if (owner === LOCAL_OWNER) return false
    const userId = userIdOf(owner)
    if (userId !== undefined) return (await sqlPeopleStore.findUser(tx as ReadTx, tenant, userId)) === undefined
    const keyId = keyIdOf(owner)
    if (keyId?.startsWith(SERVICE_CLIENT_PREFIX)) {
      const client = await sqlServiceClientStore.findClient(tx as ReadTx, tenant, keyId)
      return client === undefined || (await isDeletedRole(tx, tenant, client.role))
    }
    if (keyId?.startsWith(VIRTUAL_KEY_PREFIX)) {
      const virtual = await sqlVirtualKeyStore.findKey(tx, tenant, keyId)
      if (virtual === undefined || keyStatus(virtual, clock.nowMs()) !== 'live') return true
      const { scope, author, teams } = virtual.sharing
      return scope === 'personal' ? await isRevoked(tx, tenant, author) : scope === 'team' && teams.length === 0
    }
    const key = await findKey(tx, tenant, owner)
    return key === undefined || keyStatus(key, clock.nowMs()) !== 'live' || (await isDeletedRole(tx, tenant, key.role))
  }
  return {
    isRevoked,
    /** The rights of a key never change, except that it ends with its role; those of a user do. */
    async present(tx, principal) {
      const owner = identityOf(principal)
      const userId = userIdOf(owner)
      if (userId === undefined) return (await isRevoked(tx, principal.tenant, owner)) ? undefined : principal
      const user = await sqlPeopleStore.findUser(tx, principal.tenant, userId)
      if (user === undefined) return undefined
      const granted = await grantedBy(sqlRoleStore, tx, user.tenant, user.role)
      const now = principalOfUser(user, granted, await sqlPeopleStore.teamsOf(tx, user.id))
      const isNarrower = [...principal.permissions].some((permission) => !now.permissions.has(permission))
      return {
        ...principal,
        teams: now.teams,
        tier: tierAllows(now.tier, principal.tier) ? principal.tier : now.tier,
        ...(isNarrower && {
          permissions: new Set([...principal.permissions].filter((permission) => now.permissions.has(permission))),
        }),
      }
    },
    /** A key of the same name, which only an administrator of keys can choose, with at least the same rights. */
    async isSuccessor(tx, principal, owner) {
      const { kind, tenant, keyId } = principal
      if (kind !== 'key' || keyId === undefined) return false
      const before = await findKey(tx, tenant, owner)
      const now = await sqlApiKeyStore.findKey(tx, tenant, keyId)
      if (before === undefined || now?.name !== before.name) return false
      const granted = await grantedBy(sqlRoleStore, tx as ReadTx, tenant, before.role)
      return granted.size > 0 && hasRightsOf(principal, before, granted)
    },
  }
}

/** A key or a client whose role was deleted has no rights and never gets any again. */
const isDeletedRole = async (tx: ReadTx | WriteTx, tenant: TenantId, role: Role): Promise<boolean> =>
  !isBuiltInRole(role) && (await grantedBy(sqlRoleStore, tx as ReadTx, tenant, role)).size === 0

async function findKey(tx: ReadTx | WriteTx, tenant: TenantId, owner: string): Promise<ApiKey | undefined> {
  const keyId = keyIdOf(owner)
  return keyId === undefined ? undefined : await sqlApiKeyStore.findKey(tx as ReadTx, tenant, keyId)
}
