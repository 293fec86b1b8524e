import type { Permission } from '../../contract/permissions.ts'
import type { Role, TenantId, Tier } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { GrantingRoles } from './ports.ts'
import { checkPersonRights } from './rules.ts'
import type { PeopleReading } from './service.ts'

type Holder = Readonly<{ tenant: TenantId; role: Role; tier: Tier }>
type GrantedRights = Readonly<{ role: Role; tier: Tier; granted: ReadonlySet<Permission> }>

/** The rights that callers give to others, and take from them. */
export type Rights = Readonly<{
  /** Within the transaction that gives them, if there is one already. */
  toGive(
    call: PeopleReading,
    tenant: TenantId,
    requested: Readonly<{ role: Role; tier?: Tier | undefined }>,
    write?: WriteTx,
  ): Promise<GrantedRights>
  /** A caller that cannot grant the rights of a holder cannot remove them either. Returns what the holder's role grants. */
  requireOver(call: PeopleReading, holder: Holder): Promise<ReadonlySet<Permission>>
}>

export function createRights(roles: GrantingRoles): Rights {
  return {
    async toGive(call, tenant, requested, write) {
      if (write !== undefined) await roles.hold(write, tenant, requested.role)
      const granted = await roles.grantedToGive(call, tenant, requested.role)
      return { ...checkPersonRights(call.principal, requested, granted), granted }
    },
    async requireOver({ principal, read }, holder) {
      const granted = await roles.grantedBy(read, holder.tenant, holder.role)
      checkPersonRights(principal, holder, granted)
      return granted
    },
  }
}
