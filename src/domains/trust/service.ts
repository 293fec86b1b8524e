import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import type { ContextKey, TaintCause, Trust } from '../../contract/trust.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { TrustStore } from './ports.ts'

export type TrustDeps = Readonly<{
  store: TrustStore
  database: Pick<Database, 'read' | 'flush'>
  /** Whether other processes write to the store: then memory alone never says that a context is trusted. */
  isShared: boolean
  isProfileUntrusted(tenant: TenantId, profileId: string): Promise<boolean>
}>

/** A run that begins. */
export type NewRunContext = Readonly<{
  principal: Principal
  caller: Principal
  agentId?: string
  /** The root of the run that it takes its beginning from. */
  copiedFrom?: string
  nowMs: number
}>

export type TrustKeeper = Trust &
  Readonly<{
    inherit(tx: WriteTx, run: NewRunContext): Promise<void>
    /** In the transaction of a person's call. Answers whether it was tainted. */
    clear(tx: WriteTx, tenant: TenantId, context: ContextKey): Promise<boolean>
  }>

/**
 * Which contexts are untrusted. What is being tainted counts at once, before its commit; what is being cleared counts as tainted
 * until its commit. In a tenant that has no tainted context nobody asks the store, unless it is shared.
 */
export async function openTrust(deps: TrustDeps): Promise<TrustKeeper> {
  const { store, database, isShared } = deps
  const { read } = database
  const tenants = new Set(await store.tenants(read))
  const known = new Map<string, boolean>()
  /** Contexts with writes that may not be committed: how many, and how many of them taint. */
  const unsettled = new Map<string, { writes: number; taints: number }>()

  const keyOf = (tenant: TenantId, context: ContextKey): string => `${tenant}\n${context}`

  function remember(key: string, isTainted: boolean): void {
    if (isShared || unsettled.has(key)) return
    if (known.size >= limits.trustCacheMax) known.delete(known.keys().next().value!)
    known.set(key, isTainted)
  }

  function isTainted(tenant: TenantId, context: ContextKey): boolean | Promise<boolean> {
    const key = keyOf(tenant, context)
    if ((unsettled.get(key)?.taints ?? 0) > 0) return true
    if (!isShared && !tenants.has(tenant)) return false
    return known.get(key) ?? look(tenant, context)
  }

  async function look(tenant: TenantId, context: ContextKey): Promise<boolean> {
    const isTainted = (await store.findTaint(read, tenant, context)) !== undefined
    remember(keyOf(tenant, context), isTainted)
    return isTainted
  }

  /** Until everything handed in so far is committed, the store is asked, or what is being written counts. */
  function beginWrite(key: string, isTaint: boolean): void {
    const state = unsettled.get(key) ?? { writes: 0, taints: 0 }
    unsettled.set(key, state)
    known.delete(key)
    state.writes++
    if (isTaint) state.taints++
    const settle = () => {
      state.writes--
      if (isTaint) state.taints--
      if (state.writes === 0) unsettled.delete(key)
    }
    void database.flush().then(settle, settle)
  }

  async function taint(tx: WriteTx, tenant: TenantId, context: ContextKey, cause: TaintCause, nowMs: number) {
    const key = keyOf(tenant, context)
    if (known.get(key) === true) return
    tenants.add(tenant)
    beginWrite(key, true)
    await store.insertTaint(tx, tenant, { tenant, context, cause, sinceMs: nowMs })
  }

  function isUntrusted(principal: Principal): boolean | Promise<boolean> {
    const { tenant, gateway } = principal
    const tainted = isTainted(tenant, contextOf(principal))
    if (tainted === true || gateway === undefined) return tainted
    return Promise.resolve(tainted).then((answer) => answer || deps.isProfileUntrusted(tenant, gateway))
  }

  /** In the transaction that makes a run: it is no more trusted than its caller, its agent, and what it was copied from. */
  async function inherit(tx: WriteTx, run: NewRunContext): Promise<void> {
    const { tenant } = run.principal
    const own = contextOf(run.principal)
    const sources: [ContextKey, boolean | Promise<boolean>][] = [[contextOf(run.caller), isUntrusted(run.caller)]]
    if (run.copiedFrom !== undefined) {
      const original: ContextKey = `execution:${run.copiedFrom}`
      sources.push([original, isTainted(tenant, original)])
    }
    for (const [from, answer] of sources) {
      if (from !== own && (await answer)) return await taint(tx, tenant, own, { kind: 'inherited', from }, run.nowMs)
    }
    if (run.agentId !== undefined && (await deps.isProfileUntrusted(tenant, run.agentId)))
      await taint(tx, tenant, own, { kind: 'profile', from: `agent:${run.agentId}` }, run.nowMs)
  }

  async function clear(tx: WriteTx, tenant: TenantId, context: ContextKey): Promise<boolean> {
    beginWrite(keyOf(tenant, context), false)
    return await store.deleteTaint(tx, tenant, context)
  }

  const mayHaveTaints = (tenant: TenantId): boolean => isShared || tenants.has(tenant)

  return { contextOf, isUntrusted, mayHaveTaints, isTainted, taint, clear, inherit }
}

/**
 * A run counts as a whole, with all that runs below it. A caller without a session is known by who it is and where it comes in,
 * so that leaving a session out sheds nothing.
 */
function contextOf(principal: Principal): ContextKey {
  const { runRootId, conversationId, sealSessionId, mcpSessionId, gateway } = principal
  if (runRootId !== undefined) return `execution:${runRootId}`
  if (conversationId !== undefined) return `conversation:${conversationId}`
  if (sealSessionId !== undefined) return `session:${sealSessionId}`
  if (mcpSessionId !== undefined) return `session:${mcpSessionId}`
  return `caller:${identityOf(principal)}${gateway === undefined ? '' : `@${gateway}`}`
}
