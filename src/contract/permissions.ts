import type { Principal, Role } from './principal.ts'

/**
 * What may be done, as resource → actions, and the least role that has each action by default.
 * A permission is written `resource:action`. `admin` has every permission.
 */
const matrix = {
  task: { read: 'member', create: 'member', update: 'member' },
  project: { read: 'member', create: 'member' },
  trail: { read: 'member', create: 'member', finalize: 'editor' },
  skill: { read: 'member' },
  server: { read: 'member' },
  workspace: { read: 'member', create: 'member', update: 'member', exec: 'member', delete: 'member' },
  agent: { read: 'member', create: 'editor', update: 'editor', delete: 'admin', execute: 'member' },
  workflow: { read: 'member', create: 'editor', update: 'editor', delete: 'admin', run: 'member', promote: 'admin' },
  execution: { read: 'member', cancel: 'member', signal: 'member', delete: 'admin' },
  web: { read: 'member' },
  system: { read: 'admin', update: 'admin' },
  auditLog: { read: 'admin', recover: 'admin' },
  vault: { read: 'member', update: 'member' },
  team: { read: 'member', create: 'member', update: 'member', delete: 'member' },
  seal: { read: 'member', create: 'member', delete: 'member' },
  apiKey: { read: 'admin', create: 'admin', delete: 'admin' },
} as const satisfies Record<string, Record<string, Role>>

type Matrix = typeof matrix
export type Permission = { [R in keyof Matrix]: `${R & string}:${keyof Matrix[R] & string}` }[keyof Matrix]

const leastRole = new Map<Permission, Role>()
for (const [resource, actions] of Object.entries(matrix)) {
  for (const [action, role] of Object.entries(actions)) leastRole.set(`${resource}:${action}` as Permission, role)
}

export const permissions: readonly Permission[] = [...leastRole.keys()].sort()
export const permissionLeastRole = (permission: Permission): Role => leastRole.get(permission)!

const rank: Record<Role, number> = { member: 0, editor: 1, admin: 2 }

export function isPermitted(principal: Principal, permission: Permission): boolean {
  if (rank[principal.role] < rank[permissionLeastRole(permission)]) return false
  return principal.scopes === undefined || principal.scopes.includes(permission)
}
