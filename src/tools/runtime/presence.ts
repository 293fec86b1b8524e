import type { Principal, TenantId } from '../../contract/principal.ts'

/** The callers that have something open, and whether they are still valid. */
export type Presence = Readonly<{
  /** Registers something that the caller has open. Returns a function that unregisters it. */
  watch(principal: Principal): () => void
  /** Called for an owner that was revoked. Returns an unsubscribe function. */
  onRevoked(listener: (tenant: TenantId, owner: string) => void): () => void
}>

/** For keys that never end. */
export const everPresent: Presence = { watch: () => () => {}, onRevoked: () => () => {} }
