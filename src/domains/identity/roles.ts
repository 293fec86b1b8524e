import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPermission, isPermitted, type Permission, permissionsOfRole } from '../../contract/permissions.ts'
import { isBuiltInRole, type Principal, roles, type TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import type { ApiKeyStore, CustomRole, RoleHolders, RoleStore } from './ports.ts'
import { excessOf, keyTenant, permissionsNamed, quoted } from './rules.ts'

const NAME = /^[a-z][a-z0-9_-]{0,62}$/

type InTenant = Readonly<{ tenant?: string | undefined }>

type RoleView = Readonly<{
  name: string
  description: string
  permissions: readonly string[]
  built_in: boolean
  created_at: string | null
  created_by: string | null
}>

/** What a role grants in a tenant. A role that does not exist, or no longer does, grants nothing. */
export async function grantedBy(
  store: Pick<RoleStore, 'findRole'>,
  tx: ReadTx,
  tenant: TenantId,
  role: string,
): Promise<ReadonlySet<Permission>> {
  if (isBuiltInRole(role)) return permissionsOfRole(role)
  const found = await store.findRole(tx, tenant, role)
  return new Set(found?.permissions.filter(isPermission))
}

/** Called before a role is looked up in the transaction that gives it to a holder: it is not deleted before that ends. */
export async function holdRole(
  store: Pick<RoleStore, 'holdRoles'>,
  tx: WriteTx,
  tenant: TenantId,
  role: string,
): Promise<void> {
  if (!isBuiltInRole(role)) await store.holdRoles(tx, tenant)
}

/** What a role grants that a holder is to get. Rejects with ERR_INVALID_INPUT if the tenant has no such role. */
export async function grantedToGive(
  store: Pick<RoleStore, 'findRole' | 'listRoles'>,
  { principal, read }: Pick<Call, 'principal' | 'read'>,
  tenant: TenantId,
  role: string,
): Promise<ReadonlySet<Permission>> {
  const granted = await grantedBy(store, read, tenant, role)
  if (granted.size > 0) return granted
  const own = isPermitted(principal, 'ac:read') ? await store.listRoles(read, tenant) : []
  const near = nearestName(role, [...roles, ...own.map(({ name }) => name)])
  const hint = near === undefined ? '' : `; did you mean ${quoted(near)}?`
  throw new AppError(
    'ERR_INVALID_INPUT',
    `role: use one of ${roles.join(', ')}, or a custom role of the tenant; castellan roles list (role_list) shows them${hint}`,
    { field: 'role', role: role.slice(0, 64) },
  )
}

export type RoleService = ReturnType<typeof createRoleService>

type RoleDeps = Readonly<{
  store: RoleStore
  keys: Pick<ApiKeyStore, 'listLiveKeysOfRole'>
  holdersOf(tx: ReadTx, tenant: TenantId, role: string, nowMs: number): Promise<RoleHolders>
  /** Called within the transaction that deletes the role of these keys. */
  noteKeysEnded(tenant: TenantId, keyIds: readonly string[], nowMs: number): void
}>

/** Custom roles of a tenant, in addition to the built-in ones. */
export function createRoleService({ store, keys, holdersOf, noteKeysEnded }: RoleDeps) {
  return {
    /**
     * It has no permission that its author lacks, and its name is not that of a deleted role that a user, an invitation, a client or
     * a key still has.
     */
    async createRole(
      call: Call,
      input: InTenant & Readonly<{ name: string; description?: string | undefined; permissions: readonly string[] }>,
    ): Promise<RoleView> {
      const { principal, nowMs } = call
      const tenant = keyTenant(principal, input.tenant, 'roles')
      const name = checkName(input.name)
      const named = input.permissions.flatMap((written) => permissionsNamed(written, 'permissions'))
      const permissions = [...new Set(named)].sort()
      requireOwn(principal, permissions)
      await store.holdRoles(call.write, tenant)
      if ((await store.findRole(call.read, tenant, name)) !== undefined) {
        throw new AppError('ERR_ALREADY_EXISTS', 'name: there is a role of this name; delete it or choose another', {
          field: 'name',
        })
      }
      const { users, invitations, clients } = await holdersOf(call.read, tenant, name, nowMs)
      if (users + invitations + clients > 0) throw inUse({ users, invitations, clients, providers: [] }, 'create')
      if ((await keys.listLiveKeysOfRole(call.read, tenant, name, nowMs)).length > 0) throw hasOldKeys()
      if ((await store.listRoles(call.read, tenant)).length >= limits.customRolesMax) {
        throw new AppError('ERR_QUOTA_EXCEEDED', `A tenant has at most ${limits.customRolesMax} roles of its own.`)
      }
      const description = input.description ?? ''
      const role = { tenant, name, description, permissions, createdAtMs: nowMs, createdBy: principal.actor }
      await store.insertRole(call.write, tenant, role)
      call.record({
        kind: 'role_created',
        body: { tenant, name, description, permissions: [...permissions], created_by: principal.actor },
      })
      return viewOf(role)
    },

    /** They are few, so there is one page. */
    async listRoles(
      call: Pick<Call, 'read' | 'principal'>,
      input: InTenant & Readonly<{ name?: string | undefined }>,
    ): Promise<{ roles: RoleView[]; total: number }> {
      const own = await store.listRoles(call.read, keyTenant(call.principal, input.tenant, 'roles'))
      const part = (input.name ?? '').toLowerCase()
      const found = [...builtIn, ...own.map(viewOf)].filter(({ name }) => name.includes(part))
      return { roles: found, total: found.length }
    },

    /**
     * A role that a user, an open invitation, a client or the configuration has is not deleted. Keys with the role keep its name and
     * end like revoked ones; while one of them is valid, no new role gets that name.
     */
    async deleteRole(
      call: Call,
      input: InTenant & Readonly<{ name: string }>,
    ): Promise<{ name: string; deleted: boolean }> {
      const { principal, nowMs } = call
      const tenant = keyTenant(principal, input.tenant, 'roles')
      await store.holdRoles(call.write, tenant)
      const role = await store.findRole(call.read, tenant, input.name)
      if (role === undefined) throw isBuiltInRole(input.name) ? builtInStays(input.name) : noSuchRole(input.name)
      requireOwn(principal, role.permissions)
      const holders = await holdersOf(call.read, tenant, role.name, nowMs)
      const { users, invitations, clients, providers } = holders
      if (users + invitations + clients + providers.length > 0) throw inUse(holders, 'delete')
      await store.deleteRole(call.write, tenant, role.name)
      call.record({ kind: 'role_deleted', body: { tenant, name: role.name, deleted_by: principal.actor } })
      const ended = await keys.listLiveKeysOfRole(call.read, tenant, role.name, nowMs)
      noteKeysEnded(
        tenant,
        ended.map(({ id }) => id),
        nowMs,
      )
      if (ended.length > 0) call.warn(keysEnded(ended.map(({ name }) => name)))
      return { name: role.name, deleted: true }
    },
  }
}

function checkName(name: string): string {
  if (!NAME.test(name)) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      'name: use 1 to 63 lower-case letters, digits, "_" or "-", beginning with a letter',
      { field: 'name' },
    )
  }
  if (isBuiltInRole(name)) {
    throw new AppError('ERR_INVALID_INPUT', `name: every tenant has the roles ${roles.join(', ')}; choose another`, {
      field: 'name',
    })
  }
  return name
}

function requireOwn(principal: Principal, permissions: readonly Permission[]): void {
  const beyond = excessOf(principal, new Set(permissions))
  if (beyond.length === 0) return
  throw new AppError('ERR_PERMISSION_DENIED', 'permissions: a role cannot grant more than you have yourself', {
    field: 'permissions',
    beyond_yours: beyond,
  })
}

const counted = (count: number, one: string): string[] =>
  count === 0 ? [] : [`${count} ${one}${count === 1 ? '' : 's'}`]

/** What is in the way of a role's deletion, or of a new role with the name of a deleted one, and how to move it. */
function inUse({ users, invitations, clients, providers }: RoleHolders, purpose: 'create' | 'delete'): AppError {
  const who = [
    ...counted(users, 'user'),
    ...counted(invitations, 'open invitation'),
    ...counted(clients, 'OAuth client'),
    ...counted(providers.length, 'identity provider'),
  ].join(', ')
  const steps = [
    ...(users > 0 ? ['give the users another role with castellan users update (user_update)'] : []),
    ...(invitations > 0 ? ['cancel the invitations with castellan invite cancel (invitation_cancel)'] : []),
    ...(clients > 0 ? ['delete the clients with castellan clients delete (oauth_client_delete)'] : []),
    ...(providers.length > 0 ? ['change default_role of the provider in the configuration (oidc_providers)'] : []),
  ].join(', ')
  const fact =
    purpose === 'delete'
      ? `the role is in use: ${who}; they would lose all rights`
      : `a role of this name was deleted, and would give rights to those who had it: ${who}`
  return new AppError('ERR_ROLE_IN_USE', `name: ${fact}. First ${steps}`, {
    field: 'name',
    users,
    invitations,
    clients,
    ...(providers.length > 0 && { providers }),
  })
}

const NAMED_KEYS_MAX = 20

const keysEnded = (names: readonly string[]): string => {
  const more = names.length > NAMED_KEYS_MAX ? ` and ${names.length - NAMED_KEYS_MAX} more` : ''
  const first = names.slice(0, NAMED_KEYS_MAX).map(quoted).join(', ')
  return `API keys with this role have no rights any more: ${first}${more}. Revoke them with castellan keys revoke (api_key_revoke).`
}

const hasOldKeys = (): AppError =>
  new AppError(
    'ERR_ALREADY_EXISTS',
    'name: a role of this name was deleted, and keys that had it would get the rights of the new one; revoke these keys with api_key_revoke (api_key_list shows them), or choose another name',
    { field: 'name' },
  )

const builtInStays = (name: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `name: the role ${name} is built in and cannot be deleted`, { field: 'name' })

const noSuchRole = (name: string): AppError =>
  new AppError(
    'ERR_NOT_FOUND',
    `name: the tenant has no custom role ${quoted(name)}; castellan roles list (role_list) shows them`,
    {
      field: 'name',
    },
  )

const viewOf = (role: CustomRole): RoleView => ({
  name: role.name,
  description: role.description,
  permissions: role.permissions,
  built_in: false,
  created_at: isoTime(role.createdAtMs),
  created_by: role.createdBy,
})

const builtIn: readonly RoleView[] = roles.map((name) => ({
  name,
  description: '',
  permissions: [...permissionsOfRole(name)].sort(),
  built_in: true,
  created_at: null,
  created_by: null,
}))
