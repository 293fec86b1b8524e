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
  userIdOf,
} from '../../contract/principal.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlSealStore } from '../../stores/sql/seal-store.ts'
import type { AppDeps } from '../build-app.ts'

/** `owner` is an identity, or the id of a session of signed calls. */
type Listener = (tenant: TenantId, owner: string) => void
type Watched = {
  readonly tenant: TenantId
  readonly owner: string
  count: number
  /** How often the user had been signed out when this was last read. */
  signOuts: number | undefined
}

/**
 * Reports revoked owners that started something that outlives a request, or have something open. A key revoked or a user removed
 * here is reported after the commit. An expired key, or one that another process on the same store revoked, is found while it is
 * watched, within `limits.keyReconcileMs`; so is a user whom another process signed out.
 */
export type OwnerWatch = Readonly<{
  /** Called within a transaction: the key is revoked once that is committed. */
  keyRevoked(tenant: TenantId, keyId: string): void
  /** The same for a session of signed calls. */
  sessionRevoked(tenant: TenantId, sessionId: string): void
  /** For components that found out by themselves. */
  ownerRevoked(tenant: TenantId, owner: string): void
  /** Called within a transaction: once that is committed, a user is removed, or has lost a right, a team or a session. */
  userChanged(tenant: TenantId, userId: string): void
  /** Called within a transaction: once that is committed, the team is removed, nobody has rights through it, and its keys end. */
  teamRemoved(tenant: TenantId, teamId: string): void
  /** Returns an unsubscribe function. A listener may be called for the same owner again. */
  onRevoked(listener: Listener): () => void
  /** Called for revoked owners, for users who must authenticate again, and for the ids of removed teams. */
  onSignedOut(listener: Listener): () => void
  /** While the principal's owner has something open. Returns a function that ends the watch. */
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
  /** Other processes may use the same store. */
  const isShared = database.kind === 'postgres'

  function tell(tenant: TenantId, owner: string): void {
    for (const listener of [...listeners, ...signOutListeners]) listener(tenant, owner)
  }

  async function notifyIfRevoked(tenant: TenantId, owner: string): Promise<void> {
    await database.flush()
    if (await owners.isRevoked(database.read, tenant, owner)) tell(tenant, owner)
  }

  async function notifyOfUser(tenant: TenantId, owner: string): Promise<void> {
    await database.flush()
    const entry = watched.get(keyOf(tenant, owner))
    if (entry !== undefined) await isSignedOut(entry)
    if (await owners.isRevoked(database.read, tenant, owner)) tell(tenant, owner)
    else for (const listener of signOutListeners) listener(tenant, owner)
  }

  /** Whether the user was signed out since this was last asked. */
  async function isSignedOut(entry: Watched): Promise<boolean> {
    const userId = userIdOf(entry.owner)
    if (userId === undefined || !isShared) return false
    const before = entry.signOuts
    entry.signOuts = await sqlPeopleStore.signOutsOf(database.read, entry.tenant, userId)
    return before !== undefined && entry.signOuts !== undefined && entry.signOuts !== before
  }

  async function reconcile(): Promise<void> {
    for (const entry of [...watched.values()]) {
      const { tenant, owner } = entry
      if (isClosed) return
      if (await owners.isRevoked(database.read, tenant, owner)) tell(tenant, owner)
      else if (await isSignedOut(entry)) for (const listener of signOutListeners) listener(tenant, owner)
    }
  }

  /** Without this, a change between the start of the watch and the next reconcile would not be seen. */
  function noteSignOuts(entry: Watched): void {
    isSignedOut(entry).catch((error) => logger.warn('sign-outs could not be read', { cause: String(error) }))
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
        logger.warn('change of a user could not be announced', { cause: String(error) }),
      )
    },
    teamRemoved(tenant, teamId) {
      const notify = async (): Promise<void> => {
        await database.flush()
        for (const listener of signOutListeners) listener(tenant, teamId)
        for (const { tenant: of, owner } of [...watched.values()]) {
          if (of === tenant && (await owners.isRevoked(database.read, tenant, owner))) tell(tenant, owner)
        }
      }
      notify().catch((error) => logger.warn('removal of a team could not be announced', { cause: String(error) }))
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
          const known = watched.get(key)
          const entry = known ?? { tenant, owner, count: 0, signOuts: undefined }
          watched.set(key, entry)
          entry.count++
          if (known === undefined) noteSignOuts(entry)
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
