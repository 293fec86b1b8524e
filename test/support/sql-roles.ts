import { grantedBy } from '../../src/domains/identity/roles.ts'
import type { GrantingRoles } from '../../src/domains/people/ports.ts'
import { sqlRoleStore } from '../../src/stores/sql/role-store.ts'

/** What roles grant, for tests that read people from a store. */
export const sqlRoles: Pick<GrantingRoles, 'grantedBy'> = { grantedBy: (...args) => grantedBy(sqlRoleStore, ...args) }
