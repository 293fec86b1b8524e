import type { TenantId } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { PeopleDeps } from './service.ts'

/** Within the transaction that removes a right, a team or a session of a user. */
export async function signOut(
  { store, noteRevoked }: Pick<PeopleDeps, 'store' | 'noteRevoked'>,
  write: WriteTx,
  tenant: TenantId,
  userId: string,
): Promise<void> {
  await store.countSignOut(write, tenant, userId)
  noteRevoked(tenant, userId)
}
