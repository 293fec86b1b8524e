import { describe, expect, it } from 'vitest'
import { LOCAL_TENANT, localOwner, type Principal } from '../../contract/principal.ts'
import type { ContextKey } from '../../contract/trust.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { TaintedContext, TrustStore } from './ports.ts'
import { openTrust } from './service.ts'

const cause = { kind: 'tool_result' } as const
const tx = { __tx: 'write' } as unknown as WriteTx

/** Rows in memory, which count how often they are asked for. */
function memoryStore() {
  const rows = new Map<string, TaintedContext>()
  const counts = { finds: 0 }
  const store: Omit<TrustStore, 'pruneTaints'> = {
    insertTaint: async (_tx, _tenant, row) => void (rows.has(row.context) || rows.set(row.context, row)),
    deleteTaint: async (_tx, _tenant, context) => rows.delete(context),
    findTaint: async (_tx, _tenant, context) => {
      counts.finds++
      return rows.get(context)
    },
    findOfCredential: async (_tx, _tenant, credential, from) =>
      [...rows.values()].find((row) => row.credential === credential && row.seenMs >= from),
    listTaints: async () => [...rows.values()],
    tenants: async () => [...new Set([...rows.values()].map(({ tenant }) => tenant))],
  }
  return { store, rows, counts }
}

async function opened({ isShared = false, untrusted = '' } = {}) {
  const memory = memoryStore()
  const committed = Promise.withResolvers<void>()
  const trust = await openTrust({
    store: memory.store,
    database: { read: {} as ReadTx, flush: () => committed.promise },
    isShared,
    clock: { nowMs: () => 1 },
    isProfileUntrusted: async (_tenant, id) => id === untrusted,
  })
  return { ...memory, trust, commit: committed.resolve }
}

describe('trust', () => {
  it('of a tenant without untrusted contexts costs no query', async () => {
    const { trust, counts } = await opened()
    expect(trust.isUntrusted(localOwner)).toBe(false)
    expect(counts.finds).toBe(0)
  })

  it('is asked of a store that others write to', async () => {
    const { trust, counts } = await opened({ isShared: true })
    expect(await trust.isUntrusted(localOwner)).toBe(false)
    expect(counts.finds).toBe(1)
  })

  it('is lost at once, before the commit, and not regained by a commit that failed to come', async () => {
    const { trust, rows, commit } = await opened()
    const context = trust.contextOf(localOwner)
    await trust.taint(tx, LOCAL_TENANT, { context, cause }, 1)
    rows.clear()
    expect(await trust.isUntrusted(localOwner)).toBe(true)
    commit()
    await Promise.resolve()
    await Promise.resolve()
    expect(await trust.isUntrusted(localOwner)).toBe(false)
  })

  it('keeps the first cause', async () => {
    const { trust, rows } = await opened()
    await trust.taint(tx, LOCAL_TENANT, { context: 'session:a', cause: { ...cause, tool: 'first' } }, 1)
    await trust.taint(tx, LOCAL_TENANT, { context: 'session:a', cause: { ...cause, tool: 'second' } }, 2)
    expect(rows.get('session:a')).toMatchObject({ cause: { tool: 'first' }, sinceMs: 1 })
  })

  it.each<[Partial<Principal>, ContextKey]>([
    [{}, 'caller:owner'],
    [{ gateway: 'g' }, 'caller:owner@g'],
    [{ mcpSessionId: 's' }, 'session:s'],
    [{ mcpSessionId: 's', conversationId: 'c' }, 'conversation:c'],
    [{ mcpSessionId: 's', runRootId: 'r' }, 'execution:r'],
  ])('of %o is that of %s', async (more, context) => {
    const { trust } = await opened()
    expect(trust.contextOf({ ...localOwner, ...more })).toBe(context)
  })

  it('is never there at a gateway that says so', async () => {
    const { trust } = await opened({ untrusted: 'g' })
    expect(await trust.isUntrusted({ ...localOwner, gateway: 'g' })).toBe(true)
    expect(await trust.isUntrusted({ ...localOwner, gateway: 'h' })).toBe(false)
  })

  it('is inherited by a run from its caller, its agent and what it was copied from', async () => {
    const { trust, rows } = await opened({ untrusted: 'a' })
    const begin = (runRootId: string, more: object) =>
      trust.inherit(tx, { principal: { ...localOwner, runRootId }, caller: localOwner, nowMs: 1, ...more })
    await begin('clean', {})
    await begin('agent', { agentId: 'a' })
    await begin('copy', { copiedFrom: 'agent' })
    await trust.taint(tx, LOCAL_TENANT, { context: 'caller:owner', cause }, 1)
    await begin('begun', {})
    expect([...rows.keys()].sort()).toEqual(['caller:owner', 'execution:agent', 'execution:begun', 'execution:copy'])
  })
})
