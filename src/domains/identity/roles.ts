import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPermission, type Permission, permissionsOfRole } from '../../contract/permissions.ts'
import { isBuiltInRole, type Principal, roles, type TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { ApiKeyStore, CustomRole, RoleStore } from './ports.ts'
import { excessOf, permissionsNamed, quoted } from './rules.ts'

const NAME = /^[a-z][a-z0-9_-]{0,62}$/

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

export type RoleService = ReturnType<typeof createRoleService>

/** Custom roles of a tenant, in addition to the built-in ones. */
export function createRoleService(store: RoleStore, keys: Pick<ApiKeyStore, 'hasLiveKeyOfRole'>) {
  return {
    /**
     * It has no permission that its author lacks, and its name is not that of a deleted role that valid keys still
     * have.
     */
    async createRole(
      call: Call,
      input: Readonly<{ name: string; description?: string | undefined; permissions: readonly string[] }>,
    ): Promise<RoleView> {
      const { principal, nowMs } = call
      const { tenant } = principal
      const name = checkName(input.name)
      const named = input.permissions.flatMap((written) => permissionsNamed(written, 'permissions'))
      const permissions = [...new Set(named)].sort()
      requireOwn(principal, permissions)
      if ((await store.findRole(call.read, tenant, name)) !== undefined) {
        throw new AppError('ERR_ALREADY_EXISTS', 'name: there is a role of this name; delete it or choose another', {
          field: 'name',
        })
      }
      if (await keys.hasLiveKeyOfRole(call.read, tenant, name, nowMs)) throw hasOldKeys()
      if ((await store.listRoles(call.read, tenant)).length >= limits.customRolesMax) {
        throw new AppError('ERR_QUOTA_EXCEEDED', `A tenant has at most ${limits.customRolesMax} roles of its own.`)
      }
      const description = input.description ?? ''
      const role = { tenant, name, description, permissions, createdAtMs: nowMs, createdBy: principal.actor }
      await store.insertRole(call.write, tenant, role)
      call.record({
        kind: 'role_created',
        body: { name, description, permissions: [...permissions], created_by: principal.actor },
      })
      return viewOf(role)
    },

    async listRoles(call: Pick<Call, 'read' | 'principal'>): Promise<{ roles: RoleView[] }> {
      const own = await store.listRoles(call.read, call.principal.tenant)
      return { roles: [...builtIn, ...own.map(viewOf)] }
    },

    /** Keys with the role keep its name and lose all rights. While one of them is valid, no new role gets that name. */
    async deleteRole(call: Call, input: Readonly<{ name: string }>): Promise<{ name: string; deleted: boolean }> {
      const { principal } = call
      const role = await store.findRole(call.read, principal.tenant, input.name)
      if (role === undefined) throw noSuchRole(input.name)
      requireOwn(principal, role.permissions)
      await store.deleteRole(call.write, principal.tenant, role.name)
      call.record({ kind: 'role_deleted', body: { name: role.name, deleted_by: principal.actor } })
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

const hasOldKeys = (): AppError =>
  new AppError(
    'ERR_ALREADY_EXISTS',
    'name: a role of this name was deleted, and keys that had it would get the rights of the new one; revoke these keys with api_key_revoke (api_key_list shows them), or choose another name',
    { field: 'name' },
  )

const noSuchRole = (name: string): AppError =>
  new AppError('ERR_NOT_FOUND', `name: your tenant has no custom role ${quoted(name)}; list the roles with role_list`, {
    field: 'name',
  })

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
