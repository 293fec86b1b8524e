import type { TenantId } from './principal.ts'

/** What it takes to go on with a session of a client after a restart. The id of the session itself is not stored. */
export type RememberedSession = Readonly<{
  idHash: string
  /** Who opened it, and through which gateway: for any other it does not exist. */
  identity: string
  /** The parameters of the client's `initialize`, as JSON. */
  initialize: string
  usedAtMs: number
}>

export type McpSessionMemory = Readonly<{
  /** On disk when it resolves. The oldest of an identity with too many are forgotten, and all that were idle for too long. */
  save(tenant: TenantId, session: RememberedSession): Promise<void>
  find(tenant: TenantId, idHash: string): Promise<RememberedSession | undefined>
  touch(tenant: TenantId, idHash: string, atMs: number): Promise<void>
  remove(tenant: TenantId, idHash: string): Promise<void>
}>
