import type { Principal, TenantId } from '../../contract/principal.ts'

/** Who calls, for as long as they may. */
export type Presence = Readonly<{
  /** Registers something that the caller has open. Answers how to end that. */
  watch(principal: Principal): () => void
  /** Told of an owner who is there no more. Answers how to stop listening. */
  onRevoked(listener: (tenant: TenantId, owner: string) => void): () => void
}>

/** Where keys do not end. */
export const everPresent: Presence = { watch: () => () => {}, onRevoked: () => () => {} }
