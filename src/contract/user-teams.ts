import type { TenantId } from './principal.ts'
import type { ReadTx } from './tx.ts'

/** The teams of people, as far as sharing needs them. */
export type UserTeams = Readonly<{
  findTeam(tx: ReadTx, tenant: TenantId, idOrName: string): Promise<Readonly<{ id: string; name: string }> | undefined>
}>
