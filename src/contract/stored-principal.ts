import { isPermission, narrowed, permissionsOfRole } from './permissions.ts'
import { isBuiltInRole, type Principal } from './principal.ts'

type StoredPrincipal = Omit<Principal, 'permissions'> & Readonly<{ permissions?: readonly string[] }>

/** For what goes on after the call in which it began: the caller as it was then. */
export const writePrincipal = (principal: Principal): string =>
  JSON.stringify({ ...principal, permissions: [...principal.permissions].sort() })

/** What an earlier version stored has no permissions of its own; the role and the scopes say them. */
export function readPrincipal(json: string): Principal {
  const stored = JSON.parse(json) as StoredPrincipal
  const permissions =
    stored.permissions === undefined
      ? narrowed(isBuiltInRole(stored.role) ? permissionsOfRole(stored.role) : new Set(), stored.scopes)
      : new Set(stored.permissions.filter(isPermission))
  return { ...stored, permissions }
}
