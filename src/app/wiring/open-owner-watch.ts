import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import {
  canBeRevoked,
  keyIdentity,
  type Principal,
  standsOn,
  type TenantId,
  userIdentity,
} from '../../contract/principal.ts'
import { sqlSealStore } from '../../stores/sql/seal-store.ts'
import type { AppDeps } from '../build-app.ts'

/** `owner` is an identity, or the id of a session of signed calls, which is nobody's identity. */
type Listener = (tenant: TenantId, owner: string) => void
type Watched = { readonly tenant: TenantId; readonly owner: string; count: number }

/**
 * Tells when an owner is revoked that started what outlives a request, or has something open. That a key was revoked here, or a user
 * removed, is told once it is committed. That a key expired, or that another process on the same store revoked one, is found
 * out while it is watched for, within `limits.keyReconcileMs`.
 */
export type OwnerWatch = Readonly<{
  /** Called within a transaction: a key is gone once that is committed. */
  keyRevoked(tenant: TenantId, keyId: string): void
  /** The same for a session of signed calls. */
  sessionRevoked(tenant: TenantId, sessionId: string): void
  /** For those who found out by themselves. */
  ownerRevoked(tenant: TenantId, owner: string): void
  /** Called within a transaction: once that is committed, a user is gone, or has lost a right, a team or a session. */
  userChanged(tenant: TenantId, userId: string): void
  /** Answers how to stop listening. A listener may be told of the same one again. */
  onRevoked(listener: Listener): () => void
  /** Told of those who are gone, and also of users who stay but have to show anew who they are. */
  onSignedOut(listener: Listener): () => void
  /** For as long as the owner behind the principal has something open. Answers how to end that. */
  watch(principal: Principal): () => void
  close(): void
}>

const keyOf = (tenant: TenantId, owner: string): string => `${tenant} ${owner}`

export function openOwnerWatch(
  { logger }: Pick<AppDeps, 'logger'>,
  database: Database,
  owners: Pick<OwnerDirectory, 'isRevoked'>,
): OwnerWatch {
  const listeners = new Set<Listener>()
  const signOutListeners = new Set<Listener>()
  const watched = new Map<string, Watched>()
  let reconciling: NodeJS.Timeout | undefined
  let isClosed = false

  function tell(tenant: TenantId, owner: string): void {
    for (const listener of [...listeners, ...signOutListeners]) listener(tenant, owner)
  }

  async function notifyIfRevoked(tenant: TenantId, owner: string): Promise<void> {
    await database.flush()
    if (await owners.isRevoked(database.read, tenant, owner)) tell(tenant, owner)
  }

  async function notifyOfUser(tenant: TenantId, owner: string): Promise<void> {
    await database.flush()
    if (await owners.isRevoked(database.read, tenant, owner)) tell(tenant, owner)
    else for (const listener of signOutListeners) listener(tenant, owner)
  }

  async function reconcile(): Promise<void> {
    for (const { tenant, owner } of [...watched.values()]) {
      if (isClosed) return
      if (await owners.isRevoked(database.read, tenant, owner)) tell(tenant, owner)
    }
  }

  function scheduleReconcile(): void {
    if (reconciling !== undefined || isClosed || watched.size === 0) return
    reconciling = setTimeout(() => {
      reconcile()
        .catch((error) => logger.warn('reconcile of open sessions failed', { cause: String(error) }))
        .finally(() => {
          reconciling = undefined
          scheduleReconcile()
        })
    }, limits.keyReconcileMs)
    reconciling.unref()
  }

  return {
    keyRevoked(tenant, keyId) {
      notifyIfRevoked(tenant, keyIdentity(keyId)).catch((error) =>
        logger.warn('reconcile of a revoked key failed', { cause: String(error) }),
      )
    },
    sessionRevoked(tenant, sessionId) {
      const notify = async (): Promise<void> => {
        await database.flush()
        const session = await sqlSealStore.findSession(database.read, tenant, sessionId)
        if (session !== undefined && session.revokedAtMs !== null) tell(tenant, sessionId)
      }
      notify().catch((error) => logger.warn('reconcile of a revoked session failed', { cause: String(error) }))
    },
    ownerRevoked: tell,
    userChanged(tenant, userId) {
      notifyOfUser(tenant, userIdentity(userId)).catch((error) =>
        logger.warn('notifying of a changed user failed', { cause: String(error) }),
      )
    },
    onSignedOut(listener) {
      signOutListeners.add(listener)
      return () => signOutListeners.delete(listener)
    },
    onRevoked(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    watch(principal) {
      const { tenant } = principal
      const entries = standsOn(principal)
        .filter(canBeRevoked)
        .map((owner) => {
          const key = keyOf(tenant, owner)
          const entry = watched.get(key) ?? { tenant, owner, count: 0 }
          watched.set(key, entry)
          entry.count++
          return entry
        })
      scheduleReconcile()
      let isOver = false
      return () => {
        if (isOver) return
        isOver = true
        for (const entry of entries) {
          entry.count--
          if (entry.count === 0) watched.delete(keyOf(tenant, entry.owner))
        }
      }
    },
    close() {
      isClosed = true
      clearTimeout(reconciling)
    },
  }
}
