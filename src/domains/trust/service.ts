import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { isForgottenSession } from '../../contract/line-session.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import type { ContextKey, Taint, Trust } from '../../contract/trust.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { TrustStore } from './ports.ts'

type TrustDeps = Readonly<{
  store: Omit<TrustStore, 'pruneTaints'>
  database: Pick<Database, 'read' | 'flush'>
  /** Whether other processes write to the store: then memory alone never says that a context is trusted. */
  isShared: boolean
  clock: Pick<Clock, 'nowMs'>
  isProfileUntrusted(tenant: TenantId, profileId: string): Promise<boolean>
}>

/** A run that starts. */
type NewRunContext = Readonly<{
  principal: Principal
  caller: Principal
  agentId?: string
  /** The agent or workflow that it runs. */
  subject?: ContextKey
  /** The root of the run that it was forked from. */
  copiedFrom?: string
  nowMs: number
}>

export type TrustKeeper = Trust &
  Readonly<{
    inherit(tx: WriteTx, run: NewRunContext): Promise<void>
    /** In the transaction of a person's call. Returns whether it was tainted. */
    clear(tx: WriteTx, tenant: TenantId, context: ContextKey): Promise<boolean>
  }>

/**
 * The untrusted contexts. A taint counts at once, before its commit; a context that is being cleared counts as tainted until the
 * commit. If a tenant has no tainted context, the store is not read, unless it is shared.
 */
export async function openTrust(deps: TrustDeps): Promise<TrustKeeper> {
  const { store, database, isShared } = deps
  const { read } = database
  const tenants = new Set(await store.tenants(read))
  const known = new Map<string, boolean>()
  /** Contexts with uncommitted writes: how many, and how many of them taint. */
  const unsettled = new Map<string, { writes: number; taints: number }>()
  /** When the use of an untrusted context was last recorded. */
  const noted = new Map<string, number>()
  /** Credentials without an untrusted context, and when that was determined. */
  const clean = new Map<string, number>()

  const keyOf = createKeyOf()

  function remember(key: string, isTainted: boolean): void {
    if (isShared || unsettled.has(key)) return
    put(known, key, isTainted)
  }

  function isTainted(tenant: TenantId, context: ContextKey): boolean | Promise<boolean> {
    if (isForgottenSession(context, deps.clock.nowMs())) return true
    const key = keyOf(tenant, context)
    if (unsettled.size > 0 && (unsettled.get(key)?.taints ?? 0) > 0) return true
    if (!isShared && !tenants.has(tenant)) return false
    return known.get(key) ?? load(tenant, context)
  }

  async function load(tenant: TenantId, context: ContextKey): Promise<boolean> {
    const isTainted = (await store.findTaint(read, tenant, context)) !== undefined
    remember(keyOf(tenant, context), isTainted)
    return isTainted
  }

  /** Until everything submitted so far is committed, the store is read, or the pending write counts. */
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

  /** If its write failed, the use is not recorded: the next call writes it again. */
  async function forgetUnwritten(tenant: TenantId, context: ContextKey, nowMs: number): Promise<void> {
    const found = await store.findTaint(read, tenant, context).catch(() => undefined)
    if (found === undefined || found.seenMs < nowMs) noted.delete(keyOf(tenant, context))
  }

  async function taint(tx: WriteTx, tenant: TenantId, { context, cause, credential }: Taint, nowMs: number) {
    const key = keyOf(tenant, context)
    const isNoted = credential === undefined || (noted.get(key) ?? -Infinity) + limits.contextNotedMs > nowMs
    if (known.get(key) === true && isNoted) return
    tenants.add(tenant)
    beginWrite(key, true)
    if (credential !== undefined) {
      put(noted, key, nowMs)
      clean.delete(`${tenant}\n${credential}`)
      const check = () => forgetUnwritten(tenant, context, nowMs)
      void database.flush().then(check, check)
    }
    const times = { sinceMs: nowMs, seenMs: nowMs }
    await store.insertTaint(tx, tenant, { tenant, context, cause, credential: credential ?? null, ...times })
  }

  function isUntrusted(principal: Principal): boolean | Promise<boolean> {
    const { tenant, gateway } = principal
    const tainted = isTainted(tenant, contextOf(principal))
    const isJoining = joins(principal) && mayHaveTaints(tenant)
    if (tainted === true || (gateway === undefined && !isJoining)) return tainted
    return (async () => {
      if (await tainted) return true
      if (gateway !== undefined && (await deps.isProfileUntrusted(tenant, gateway))) return true
      return isJoining && (await openContext(principal)) !== undefined
    })()
  }

  /** An untrusted context of the same credential that is in use now. */
  async function openContext(principal: Principal): Promise<ContextKey | undefined> {
    const from = deps.clock.nowMs() - limits.contextLiveMs
    return (await store.findOfCredential(read, principal.tenant, credentialOf(principal)!, from))?.context
  }

  function hasReadUntrusted(principal: Principal): boolean | Promise<boolean> {
    const credential = credentialOf(principal)
    const isOwn = isUntrusted(principal)
    if (isOwn === true || credential === undefined || !mayHaveTaints(principal.tenant)) return isOwn
    return (async () =>
      (await isOwn) || (await store.findOfCredential(read, principal.tenant, credential, 0)) !== undefined)()
  }

  function dueTaint(principal: Principal, nowMs: number): Taint | undefined | Promise<Taint | undefined> {
    const { tenant } = principal
    const credential = credentialOf(principal)
    if (credential === undefined || !mayHaveTaints(tenant)) return undefined
    const context = contextOf(principal)
    const holder = `${tenant}\n${credential}`
    if ((noted.get(keyOf(tenant, context)) ?? -Infinity) + limits.contextNotedMs > nowMs) return undefined
    if ((clean.get(holder) ?? -Infinity) + limits.policyVersionPollMs > nowMs) return undefined
    return (async () => {
      if (await isTainted(tenant, context)) return { context, cause: { kind: 'inherited' }, credential }
      const from = await openContext(principal)
      if (from !== undefined)
        return joins(principal) ? { context, cause: { kind: 'inherited', from }, credential } : undefined
      put(clean, holder, nowMs)
      return undefined
    })()
  }

  /** In the transaction that creates a run: it is no more trusted than its caller, its agent, and the run it was forked from. */
  async function inherit(tx: WriteTx, run: NewRunContext): Promise<void> {
    const { tenant } = run.principal
    const own = contextOf(run.principal)
    const sources: [ContextKey, boolean | Promise<boolean>][] = [[contextOf(run.caller), isUntrusted(run.caller)]]
    if (run.copiedFrom !== undefined) {
      const original: ContextKey = `execution:${run.copiedFrom}`
      sources.push([original, isTainted(tenant, original)])
    }
    if (run.subject !== undefined) sources.push([run.subject, isTainted(tenant, run.subject)])
    for (const [from, answer] of sources) {
      if (from !== own && (await answer))
        return await taint(tx, tenant, { context: own, cause: { kind: 'inherited', from } }, run.nowMs)
    }
    if (run.agentId !== undefined && (await deps.isProfileUntrusted(tenant, run.agentId)))
      await taint(tx, tenant, { context: own, cause: { kind: 'profile', from: `agent:${run.agentId}` } }, run.nowMs)
  }

  async function clear(tx: WriteTx, tenant: TenantId, context: ContextKey): Promise<boolean> {
    noted.delete(keyOf(tenant, context))
    beginWrite(keyOf(tenant, context), false)
    return await store.deleteTaint(tx, tenant, context)
  }

  const mayHaveTaints = (tenant: TenantId): boolean => isShared || tenants.has(tenant)

  return {
    ...{ contextOf, credentialOf, isUntrusted, hasReadUntrusted, mayHaveTaints, isTainted },
    ...{ taint, dueTaint, clear, inherit },
  }
}

/** Asked several times for the same context in a row: the same string is returned, so its hash is computed once. */
function createKeyOf(): (tenant: TenantId, context: ContextKey) => string {
  let last = { tenant: '', context: '', key: '' }
  return (tenant, context) => {
    if (last.context !== context || last.tenant !== tenant) last = { tenant, context, key: `${tenant}\n${context}` }
    return last.key
  }
}

function put<Value>(map: Map<string, Value>, key: string, value: Value): void {
  if (map.size >= limits.trustCacheMax) map.delete(map.keys().next().value!)
  map.set(key, value)
}

/**
 * A key is one program, whatever connections it opens. So is a program that a person allowed to act for them. People
 * have no credential here: their connections are not joined, because one page would then make everything that they do
 * untrusted. Runs have their own context.
 */
function credentialOf(principal: Principal): string | undefined {
  const { kind, runRootId, executionId, oauthClient } = principal
  if (runRootId !== undefined || executionId !== undefined) return undefined
  if (kind === 'key') return identityOf(principal)
  return kind === 'user' && oauthClient !== undefined ? `${identityOf(principal)}/${oauthClient}` : undefined
}

/** Whether its open connections share their trust: a program can open a second one to do what the first may not. */
const joins = (principal: Principal): boolean => principal.kind === 'key' && credentialOf(principal) !== undefined

/**
 * A run counts as a whole, with its child runs. A caller without a session is identified by itself and its address, so that
 * omitting a session evades nothing.
 */
function contextOf(principal: Principal): ContextKey {
  let context = contexts.get(principal)
  if (context === undefined) {
    context = newContextOf(principal)
    contexts.set(principal, context)
  }
  return context
}

/** Principals are immutable, and every call asks for the context of its own. */
const contexts = new WeakMap<Principal, ContextKey>()

function newContextOf(principal: Principal): ContextKey {
  const { runRootId, conversationId, sealSessionId, mcpSessionId, gateway } = principal
  if (runRootId !== undefined) return `execution:${runRootId}`
  if (conversationId !== undefined) return `conversation:${conversationId}`
  if (sealSessionId !== undefined) return `session:${sealSessionId}`
  if (mcpSessionId !== undefined) return `session:${mcpSessionId}`
  return `caller:${identityOf(principal)}${gateway === undefined ? '' : `@${gateway}`}`
}
