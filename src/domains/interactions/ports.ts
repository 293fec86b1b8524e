import type { Interaction, InteractionOutcome, InteractionSource } from '../../contract/interaction.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** Ids are ordered by the time at which the request began. */
export type StoredInteraction = Interaction & Readonly<{ id: string }>

/** As text, redacted or not. `isWhole` says whether nothing was left out at the end. */
export type StoredBodies = Readonly<{
  request: string | null
  answer: string | null
  isWhole: boolean
  isRedacted: boolean
}>

export type NewInteraction = Readonly<{ interaction: StoredInteraction; bodies: StoredBodies | undefined }>

/** What went through a profile, since it was made. */
export type TokenUsage = Readonly<{ input: number; output: number }>

export type InteractionFilter = Readonly<{
  owner?: string | undefined
  agentId?: string | undefined
  proxyId?: string | undefined
  runId?: string | undefined
  session?: string | undefined
  provider?: string | undefined
  model?: string | undefined
  outcome?: InteractionOutcome | undefined
  source?: InteractionSource | undefined
  /** Bounds of the id: from this one on, and before that one. */
  fromId?: string | undefined
  beforeId?: string | undefined
}>

export type InteractionTotals = Readonly<{
  count: number
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
  reasoning: number
  costMicrodollars: number
  /** Of how many the cost is not known. */
  unpriced: number
}>

/** Hands requests to models on to another system, as they end. Nobody waits for it. */
export type InteractionExporter = Readonly<{
  add(interaction: StoredInteraction): void
  /** Sends what is left, within some seconds. */
  close(): Promise<void>
}>

/** Every method answers for one tenant only. */
export type InteractionStore = Readonly<{
  /** All or nothing; and nothing more if the first of them is there already. Their tokens are added to those of their profiles. */
  insertInteractions(tx: WriteTx, tenant: TenantId, added: readonly NewInteraction[]): Promise<void>
  /** The newest first. */
  listInteractions(tx: ReadTx, tenant: TenantId, filter: InteractionFilter, limit: number): Promise<StoredInteraction[]>
  sumInteractions(tx: ReadTx, tenant: TenantId, filter: InteractionFilter): Promise<InteractionTotals>
  findInteraction(tx: ReadTx, tenant: TenantId, id: string): Promise<StoredInteraction | undefined>
  findBodies(tx: ReadTx, tenant: TenantId, id: string): Promise<StoredBodies | undefined>
  usageOf(tx: ReadTx, tenant: TenantId, profileId: string): Promise<TokenUsage>
  /** Removes those before an id, at most so many. Answers how many. What profiles have used stays. */
  pruneInteractions(tx: WriteTx, tenant: TenantId, beforeId: string, limit: number): Promise<number>
  pruneBodies(tx: WriteTx, tenant: TenantId, beforeId: string, limit: number): Promise<number>
  /** Whose interactions there are. */
  tenants(tx: ReadTx): Promise<TenantId[]>
}>
