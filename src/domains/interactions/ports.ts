import type { Interaction, InteractionOutcome, InteractionSource } from '../../contract/interaction.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** Ids are ordered by the start of the request. */
export type StoredInteraction = Interaction & Readonly<{ id: string }>

/** As text, redacted or not. `isWhole` says whether the end is complete. */
export type StoredBodies = Readonly<{
  request: string | null
  answer: string | null
  isWhole: boolean
  isRedacted: boolean
}>

export type NewInteraction = Readonly<{ interaction: StoredInteraction; bodies: StoredBodies | undefined }>

/** The tokens of a profile since its creation. */
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
  /** Bounds of the id, the second excluded. */
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
  costNanodollars: number
  savedNanodollars: number
  /** The number without a known cost. */
  unpriced: number
}>

/** Exports completed requests to another system. Nobody waits for it. */
export type InteractionExporter = Readonly<{
  add(interaction: StoredInteraction): void
  /** What was lost since the start, and why, until some are accepted again. */
  problem(): string | undefined
  /** Sends the rest, within some seconds. */
  close(): Promise<void>
}>

/** Every method answers for one tenant only. */
export type InteractionStore = Readonly<{
  /** All or nothing; does nothing if the first of them exists already. Their tokens are added to those of their profiles. */
  insertInteractions(tx: WriteTx, tenant: TenantId, added: readonly NewInteraction[]): Promise<void>
  /** The newest first. */
  listInteractions(tx: ReadTx, tenant: TenantId, filter: InteractionFilter, limit: number): Promise<StoredInteraction[]>
  sumInteractions(tx: ReadTx, tenant: TenantId, filter: InteractionFilter): Promise<InteractionTotals>
  findInteraction(tx: ReadTx, tenant: TenantId, id: string): Promise<StoredInteraction | undefined>
  findBodies(tx: ReadTx, tenant: TenantId, id: string): Promise<StoredBodies | undefined>
  usageOf(tx: ReadTx, tenant: TenantId, profileId: string): Promise<TokenUsage>
  /** Removes at most `limit` rows before an id, and returns how many. Totals of profiles stay. */
  pruneInteractions(tx: WriteTx, tenant: TenantId, beforeId: string, limit: number): Promise<number>
  pruneBodies(tx: WriteTx, tenant: TenantId, beforeId: string, limit: number): Promise<number>
  /** The tenants with interactions. */
  tenants(tx: ReadTx): Promise<TenantId[]>
}>
