import type { BuiltInRole, Principal } from './principal.ts'

const everyone = ['admin', 'editor', 'member'] as const
const editors = ['admin', 'editor'] as const
const admins = ['admin'] as const

/** Everyone creates, reads, changes and removes their own; an administrator of the resource also those of others. */
const owned = { read: everyone, create: everyone, update: everyone, delete: everyone } as const
const shared = { ...owned, 'team-admin': editors, admin: admins } as const
const byEditors = { read: editors, create: editors, update: editors, delete: editors } as const
const readByAll = { read: everyone, create: editors, update: editors, delete: editors } as const
const byAdmins = { read: admins, create: admins, update: admins, delete: admins } as const
const readByEditors = { read: editors, create: admins, update: admins, delete: admins } as const

/**
 * What may be done, as resource → actions, and the built-in roles that have each action. A permission is written
 * `resource:action`. `admin` of a resource reaches what everybody in the tenant has of it; `team-admin` changes what is shared
 * with a team of which the caller is a member. `team` is a team of agents, `userTeam` one of people.
 */
const matrix = {
  task: { read: everyone, create: everyone, update: everyone },
  project: owned,
  trail: { read: everyone, create: everyone, finalize: editors },
  server: { read: everyone },
  workspace: { ...owned, exec: everyone, admin: admins },
  agent: { ...shared, execute: everyone },
  workflow: {
    read: everyone,
    create: editors,
    update: editors,
    delete: admins,
    run: everyone,
    promote: admins,
    admin: admins,
  },
  execution: { read: everyone, cancel: everyone, signal: everyone, delete: admins, admin: admins },
  web: { read: everyone },
  system: { read: admins, update: admins },
  auditLog: { read: admins, recover: admins },
  vault: { read: everyone, update: everyone },
  team: { ...owned, admin: admins },
  seal: { read: everyone, create: everyone, delete: everyone, admin: admins },
  apiKey: { read: admins, create: admins, delete: admins },
  skill: shared,
  app: shared,
  mcpGateway: shared,
  llmProxy: shared,
  sandbox: { execute: everyone },
  agentTrigger: byEditors,
  scheduledTask: { ...owned, admin: admins },
  llmProviderApiKey: { ...readByAll, admin: admins },
  llmVirtualKey: { read: everyone, create: everyone, update: editors, delete: everyone, admin: admins },
  llmOauthClient: { ...readByAll, admin: admins },
  mcpOauthClient: { ...readByAll, admin: admins },
  llmModel: { read: everyone, update: editors },
  llmLimit: byEditors,
  optimizationRule: byEditors,
  llmCost: { read: editors },
  toolPolicy: readByAll,
  approval: { read: everyone, update: everyone, admin: editors },
  mcpRegistry: { ...readByAll, 'team-admin': editors },
  mcpServerInstallation: { read: everyone, create: everyone, update: editors, delete: everyone, admin: admins },
  mcpServerInstallationRequest: { read: everyone, create: everyone, update: everyone, delete: editors, admin: admins },
  environment: { admin: editors, 'deploy-to-restricted': admins },
  githubAppConfig: byEditors,
  knowledgeSource: { ...readByAll, query: everyone, admin: admins },
  knowledgeFile: { ...readByAll, admin: admins },
  chat: owned,
  log: { read: editors },
  serviceAccount: byAdmins,
  agentSettings: { read: admins, update: admins },
  llmSettings: { read: editors, update: editors },
  knowledgeSettings: { read: editors, update: editors },
  organizationSettings: { read: editors, update: editors },
  member: readByEditors,
  invitation: { read: editors, create: admins, cancel: admins },
  ac: readByEditors,
  userTeam: { read: everyone, create: admins, update: admins, delete: admins, admin: admins },
  identityProvider: readByEditors,
  secret: { read: everyone, create: everyone, update: admins, delete: everyone, admin: admins },
  siteNotification: { read: everyone, create: admins, update: admins, delete: admins },
  chatAgentPicker: { enable: everyone },
  chatProviderSettings: { enable: everyone },
  chatExpandToolCalls: { enable: everyone },
  simpleView: { enable: ['member'] },
} as const satisfies Record<string, Record<string, readonly BuiltInRole[]>>

type Matrix = typeof matrix
type Resource = keyof Matrix
type PermissionOn<R extends Resource> = `${R}:${keyof Matrix[R] & string}`
export type Permission = { [R in Resource]: PermissionOn<R> }[Resource]
/** Resources that a caller can administer for the whole tenant. */
type AdministeredResource = { [R in Resource]: 'admin' extends keyof Matrix[R] ? R : never }[Resource]

const setsOf: Record<BuiltInRole, Set<Permission>> = { admin: new Set(), editor: new Set(), member: new Set() }
const all: Permission[] = []
for (const [resource, actions] of Object.entries(matrix)) {
  for (const [action, roles] of Object.entries<readonly BuiltInRole[]>(actions)) {
    const permission = `${resource}:${action}` as Permission
    all.push(permission)
    for (const role of roles) setsOf[role].add(permission)
  }
}

export const permissions: readonly Permission[] = all.sort()
const known: ReadonlySet<string> = new Set(permissions)
export const isPermission = (text: string): text is Permission => known.has(text)

export const permissionsOfRole = (role: BuiltInRole): ReadonlySet<Permission> => setsOf[role]

/** The permissions of a role that the scopes name. A scope that is not a permission of this version names nothing. */
export function narrowed(
  granted: ReadonlySet<Permission>,
  scopes: readonly Permission[] | null | undefined,
): ReadonlySet<Permission> {
  return scopes === null || scopes === undefined ? granted : new Set(scopes.filter((scope) => granted.has(scope)))
}

/** The rights of a principal with these permissions. */
export function rightsFrom(
  role: string,
  granted: ReadonlySet<Permission>,
  scopes?: readonly Permission[] | null,
): Pick<Principal, 'role' | 'permissions' | 'scopes'> {
  const permissions = narrowed(granted, scopes)
  return { role, permissions, ...(scopes === null || scopes === undefined ? {} : { scopes: [...permissions] }) }
}

/** The rights of a built-in role. */
export const rightsOf = (role: BuiltInRole, scopes?: readonly Permission[] | null) =>
  rightsFrom(role, permissionsOfRole(role), scopes)

/** `enable` shows or hides a part of a user interface. It grants nothing, so anybody may pass it on. */
export const isPreference = (permission: Permission): boolean => permission.endsWith(':enable')

type Permitted = Pick<Principal, 'permissions'>

export const isPermitted = (principal: Permitted, permission: Permission): boolean =>
  principal.permissions.has(permission)

/** Whether the principal sees, and may act on, what everybody in the tenant has of a resource. */
export const administers = (principal: Permitted, resource: AdministeredResource): boolean =>
  principal.permissions.has(`${resource}:admin`)

const keys = new WeakMap<ReadonlySet<Permission>, string>()

/** Equal sets give equal strings. */
export function permissionsKey(set: ReadonlySet<Permission>): string {
  const before = keys.get(set)
  if (before !== undefined) return before
  const key = [...set].sort().join()
  keys.set(set, key)
  return key
}
