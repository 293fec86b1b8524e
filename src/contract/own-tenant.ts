import { AppError } from './app-error.ts'
import type { Principal } from './principal.ts'

/** A parameter that names a tenant may only name the caller's own. */
export function requireOwnTenant(principal: Principal, tenantId: string | undefined): void {
  if (tenantId === undefined || tenantId === principal.tenant) return
  throw new AppError('ERR_TENANT_MISMATCH', 'tenant_id must be your own tenant; leave it out', { field: 'tenant_id' })
}
