import type { Principal, TenantId } from './principal.ts'
import type { WriteTx } from './tx.ts'

/** Why a context became untrusted: the first cause is kept. */
export type TaintCause = Readonly<{
  kind: 'tool_result' | 'inherited' | 'workspace' | 'profile' | 'run'
  tool?: string
  callId?: string
  policy?: string
  /** The context that it was inherited from. */
  from?: string
}>

/** Whose trust counts: a conversation, the tree of a run, a session, a workspace, or a caller that has none of these. */
export type ContextKey =
  `${'execution' | 'session' | 'conversation' | 'app' | 'workspace' | 'caller' | 'task' | 'note' | 'team'}:${string}`

/**
 * Which contexts have read what anybody may have written. A context stays untrusted until a person clears it.
 */
export type Trust = Readonly<{
  /** The context that a call of the principal belongs to. */
  contextOf(principal: Principal): ContextKey
  /** Answers at once where memory knows. Also true for a caller at a gateway that is untrusted from the start. */
  isUntrusted(principal: Principal): boolean | Promise<boolean>
  /** False only if nothing of the tenant is untrusted, so that nobody need look. */
  mayHaveTaints(tenant: TenantId): boolean
  isTainted(tenant: TenantId, context: ContextKey): boolean | Promise<boolean>
  /** In memory at once, durable with the transaction. */
  taint(tx: WriteTx, tenant: TenantId, context: ContextKey, cause: TaintCause, nowMs: number): Promise<void>
}>
