import type { Json } from '../kernel/canonical-json.ts'
import type { CallingClient } from './calling-client.ts'
import type { Principal } from './principal.ts'
import type { ContextKey } from './trust.ts'
import type { ReadTx, WriteTx } from './tx.ts'

/**
 * A domain fact that a call brought about, stored whole in the log entry of that call. `subject` makes it a trail record of that
 * task (`task:42`); `hash` is then the leaf that audit sessions use.
 */
export type EffectRecord = Readonly<{
  kind: string
  subject?: string
  hash?: string
  body: Readonly<Record<string, Json | undefined>>
  /** The canonical JSON of `body`, if the caller has written it already. */
  bodyText?: string
}>

/** Where a call came in: from outside, from an agent or a manifest (`agent`), or from the platform itself (`engine`). */
export type Transport = 'stdio' | 'http' | 'cli' | 'rest' | 'seal' | 'agent' | 'engine'

export type Progress = Readonly<{ progress: number; total?: number; message?: string }>

/**
 * One tool call, as services see it. `principal` says who acts; every store method takes its tenant from there.
 * The transactions are valid only until the handler returns.
 */
export type Call = Readonly<{
  id: string
  principal: Principal
  transport: Transport
  /** The platform itself calls, for a run or a caller. No request can claim this. */
  isOfPlatform?: boolean
  /** The address under which the caller reached the HTTP server, such as `http://127.0.0.1:7433`; absent on other transports. */
  origin?: string
  /** One instant for the whole call, so that all it writes carries the same time. */
  nowMs: number
  signal: AbortSignal
  progress(update: Progress): void
  /** The calling program, if other servers can ask it questions during the call. What they tell it is judged like a result. */
  client?: CallingClient
  /** Environment variables for commands of the caller, in addition to those of the workspace; absent unless an agent calls. */
  environment?: () => Readonly<Record<string, string>>
  /** Many reads of one instant, for long work. */
  snapshot<T>(work: (tx: ReadTx) => Promise<T>): Promise<T>
  /** A warning that goes to the caller with the answer. */
  warn(message: string): void
  /** Consistent reads. Inside a writing tool it sees the transaction's own writes. */
  read: ReadTx
  /** The transaction of a `create`, `update` or `delete` tool; reading it in any other tool is a programming error. */
  write: WriteTx
  /** Adds a fact to this call's log entry; it is committed with the transaction or not at all. */
  record(effect: EffectRecord): void
  /**
   * Call this before reading or changing a workspace for the caller: untrusted content of either side makes the other side
   * untrusted.
   */
  enterWorkspace?(workspaceId: string, reachesOut?: boolean): Promise<void>
  /** Call this before a workspace gets access to the network for the caller: who may send nothing out opens no way out. */
  opensNetwork?(): Promise<void>
  /** Call this before the call chooses tools for agents or gateways: who may not change rules now may not do that either. */
  assignsTools?(): Promise<void>
  /** Call this before content of others comes into the workspace: it is untrusted, and so is every caller that reads it later. */
  fillsWorkspace?(workspaceId: string): Promise<void>
  /** What the answer has was written in that context: who reads it is no more trusted than that. */
  readsFrom?(context: ContextKey): void
  /** Call this before what was read there is written into the workspace: neither that nor who reads it is more trusted. */
  bringsInto?(workspaceId: string, from: ContextKey): Promise<void>
  /**
   * Call this before a text of another server reaches the caller, while the call goes on or after it. It is judged like a result of
   * the tool. Resolves to whether the caller may see it, once it is recorded that the caller did. A question after the call is also
   * judged like the call, because its answer is sent to the server; the question may have no text.
   */
  hears?(text: string | undefined, isQuestion?: boolean): Promise<boolean>
  /** Call this before writing there, or in the transaction that does: what it writes is no more trusted than who writes it. */
  writesTo?(context: ContextKey, tx?: WriteTx): Promise<void>
  /** A durable transaction of an `external` tool: resolves once committed. */
  transact<T>(work: (tx: WriteTx) => Promise<T>): Promise<T>
}>
