import { isPermission, narrowed, permissionsOfRole } from './permissions.ts'
import { isBuiltInRole, type Principal } from './principal.ts'

type StoredPrincipal = Omit<Principal, 'permissions'> & Readonly<{ permissions?: readonly string[] }>

/** The caller as it is now, for work that continues after the call. */
export const writePrincipal = (principal: Principal): string =>
  JSON.stringify({ ...principal, permissions: [...principal.permissions].sort() })

/** Rows of earlier versions have no permissions; the role and the scopes determine them. */
export function readPrincipal(json: string): Principal {
  const stored = JSON.parse(json) as StoredPrincipal
  const permissions =
    stored.permissions === undefined
      ? narrowed(isBuiltInRole(stored.role) ? permissionsOfRole(stored.role) : new Set(), stored.scopes)
      : new Set(stored.permissions.filter(isPermission))
  return { ...stored, permissions }
}
