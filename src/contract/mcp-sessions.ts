import type { TenantId } from './principal.ts'

/** The data needed to resume a client's session after a restart. The session id itself is not stored. */
type RememberedSession = Readonly<{
  idHash: string
  /** The identity and gateway that opened it. For all others the session does not exist. */
  identity: string
  /** The parameters of the client's `initialize`, as JSON. */
  initialize: string
  /** What its client chose since then, as JSON. */
  choices?: string | undefined
  usedAtMs: number
}>

export type McpSessionMemory = Readonly<{
  /** On disk when it resolves. Removes the oldest sessions of an identity that has too many, and all expired ones. */
  save(tenant: TenantId, session: RememberedSession): Promise<void>
  /** Undefined for one that has ended. */
  find(tenant: TenantId, idHash: string): Promise<RememberedSession | undefined>
  touch(tenant: TenantId, idHash: string, atMs: number): Promise<void>
  setChoices(tenant: TenantId, idHash: string, choices: string, atMs: number): Promise<void>
  /** The choices that were set since then, by the digest of the session. */
  choicesSince(tenant: TenantId, sinceMs: number): Promise<ReadonlyMap<string, string>>
  /** Ends it for all processes on the store. On disk when it resolves. */
  end(tenant: TenantId, idHash: string, atMs: number): Promise<void>
  /** The digests of the sessions that ended since then. */
  endedSince(tenant: TenantId, sinceMs: number): Promise<ReadonlySet<string>>
}>
