import type { Principal, TenantId } from './principal.ts'
import type { CarriedKind } from './tool-policies.ts'
import type { WriteTx } from './tx.ts'

/** Why a context became untrusted. The first cause is stored. */
export type TaintCause = Readonly<{
  kind: 'tool_result' | 'inherited' | 'workspace' | 'profile' | 'run' | 'unseen'
  tool?: string
  callId?: string
  policy?: string
  /** The context that it was inherited from. */
  from?: string
}>

/** The unit of trust: a conversation, the tree of a run, a session, a workspace, or a caller that has none of these. */
export type ContextKey =
  `${'execution' | 'session' | 'conversation' | 'app' | 'workspace' | 'caller' | 'transfer' | CarriedKind}:${string}`

/** A context that becomes untrusted. `credential` is that of the program whose context it is. */
export type Taint = Readonly<{ context: ContextKey; cause: TaintCause; credential?: string | undefined }>

/** Which contexts have read untrusted data. A context stays untrusted until a person clears it. */
export type Trust = Readonly<{
  /** The context that a call of the principal belongs to. */
  contextOf(principal: Principal): ContextKey
  /**
   * Answers at once where memory knows. Also true for a caller at a gateway that is untrusted from the start, and for a key of which
   * another connection that is in use is untrusted.
   */
  isUntrusted(principal: Principal): boolean | Promise<boolean>
  /**
   * Whether the program that calls has read untrusted data in any of its contexts, ended ones too. For a person who shows no credential of
   * a program, whether the context has.
   */
  hasReadUntrusted(principal: Principal): boolean | Promise<boolean>
  /** The credential with which a program acts; undefined for people, and for runs. */
  credentialOf(principal: Principal): string | undefined
  /** What has to be written of the caller's own context, beside what the call itself brings: it joins another one, or is still in use. */
  dueTaint(principal: Principal, nowMs: number): Taint | undefined | Promise<Taint | undefined>
  /** False only if the tenant has nothing untrusted, so that no lookup is needed. */
  mayHaveTaints(tenant: TenantId): boolean
  isTainted(tenant: TenantId, context: ContextKey): boolean | Promise<boolean>
  /** In memory at once, durable with the transaction. */
  taint(tx: WriteTx, tenant: TenantId, taint: Taint, nowMs: number): Promise<void>
}>
