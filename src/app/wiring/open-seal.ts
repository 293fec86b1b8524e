import { join } from 'node:path'
import type { TenantId } from '../../contract/principal.ts'
import type { IdentityService } from '../../domains/identity/service.ts'
import type { ContextDirectory } from '../../domains/seal/ports.ts'
import { createSealService, type SealService } from '../../domains/seal/service.ts'
import { createTokenSigner } from '../../domains/seal/token.ts'
import { openSealKey } from '../../stores/files/seal-key-store.ts'
import { sqlSealStore } from '../../stores/sql/seal-store.ts'
import type { AppDeps } from '../build-app.ts'
import type { OpenedDatabase } from './open-database.ts'

/** Sessions of external callers, with the key that signs their tokens beside the store. */
export async function openSeal(
  { clock, random }: AppDeps,
  { database, directory }: OpenedDatabase,
  parts: Readonly<{
    identity: IdentityService
    contexts: ContextDirectory
    noteExpired(atMs: number): void
    noteRevoked(tenant: TenantId, sessionId: string): void
  }>,
): Promise<SealService> {
  const seed = await openSealKey(join(directory, 'seal-key.json'), random)
  return createSealService({
    store: sqlSealStore,
    database,
    keys: parts.identity,
    contexts: parts.contexts,
    signer: createTokenSigner(seed),
    clock,
    random,
    noteExpired: parts.noteExpired,
    noteRevoked: parts.noteRevoked,
  })
}
