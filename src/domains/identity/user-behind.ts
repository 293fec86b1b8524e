import { keyIdOf, type TenantId, userIdOf } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { ApiKeyStore } from './ports.ts'

/** The user of an identity: that user themselves, or the one who created the key, directly or with another key. */
export async function userBehind(
  store: Pick<ApiKeyStore, 'findKey'>,
  read: ReadTx,
  tenant: TenantId,
  identity: string,
): Promise<string | undefined> {
  const keyId = keyIdOf(identity)
  if (keyId === undefined) return userIdOf(identity)
  return (await store.findKey(read, tenant, keyId))?.userId ?? undefined
}
