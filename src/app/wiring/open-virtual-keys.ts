import type { Database } from '../../contract/database.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import {
  keyIdOf,
  LOCAL_OWNER,
  LOCAL_TENANT,
  localOwner,
  type Principal,
  type TenantId,
  userIdOf,
} from '../../contract/principal.ts'
import { grantedBy } from '../../domains/identity/roles.ts'
import type { IdentityService } from '../../domains/identity/service.ts'
import type { ProviderKeyService } from '../../domains/model-proxies/provider-keys.ts'
import { createVirtualKeyService, type VirtualKeyService } from '../../domains/model-proxies/virtual-keys.ts'
import { principalOfUser } from '../../domains/people/rules.ts'
import type { ProfileService } from '../../domains/profiles/service.ts'
import { sqlApiKeyStore } from '../../stores/sql/api-key-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlRoleStore } from '../../stores/sql/role-store.ts'
import { sqlVirtualKeyStore } from '../../stores/sql/virtual-key-store.ts'
import type { AppDeps } from '../build-app.ts'
import type { OwnerWatch } from './open-owner-watch.ts'
import { reachedProviders } from './open-provider-keys.ts'

export type VirtualKeyParts = Readonly<{
  database: Database
  identity: Pick<IdentityService, 'livePrincipal'>
  owners: Pick<OwnerDirectory, 'isRevoked'>
  ownerWatch: Pick<OwnerWatch, 'keyRevoked' | 'onSignedOut'>
  providerKeys: ProviderKeyService
}>

/** Virtual keys. */
export function openVirtualKeys(
  { config, clock, random }: AppDeps,
  {
    database,
    identity,
    owners,
    ownerWatch,
    sharing,
    providerKeys,
  }: VirtualKeyParts & Readonly<{ sharing: ProfileService }>,
): Readonly<{ service: VirtualKeyService; close(): void }> {
  const { read } = database

  async function principalOf(tenant: TenantId, owner: string): Promise<Principal | undefined> {
    if (owner === LOCAL_OWNER) return tenant === LOCAL_TENANT ? localOwner : undefined
    const userId = userIdOf(owner)
    if (userId !== undefined) {
      const user = await sqlPeopleStore.findUser(read, tenant, userId)
      if (user === undefined) return undefined
      const granted = await grantedBy(sqlRoleStore, read, tenant, user.role)
      return principalOfUser(user, granted, await sqlPeopleStore.teamsOf(read, user.id))
    }
    const keyId = keyIdOf(owner)
    return keyId === undefined ? undefined : (await identity.livePrincipal(tenant, keyId, clock.nowMs()))?.principal
  }

  const service = createVirtualKeyService({
    store: sqlVirtualKeyStore,
    sharing,
    teams: sqlPeopleStore,
    random,
    read,
    providers: reachedProviders(config),
    providerKeys,
    principalOf,
    isRevoked: owners.isRevoked,
    creatorKey: ({ read: tx, principal }) => sqlApiKeyStore.findKey(tx, principal.tenant, principal.keyId!),
    noteRevoked: ownerWatch.keyRevoked,
    noteUse: (tenant, keyId, atMs) =>
      void database.writeSoon(tenant, (tx) => sqlVirtualKeyStore.touchKey(tx, tenant, keyId, atMs)),
  })
  const close = ownerWatch.onSignedOut(service.forget)
  return { service, close }
}
