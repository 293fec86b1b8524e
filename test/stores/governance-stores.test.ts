import { describe, expect, onTestFinished, test } from 'vitest'
import { tenantId } from '../../src/contract/principal.ts'
import type { StoredApproval } from '../../src/domains/approvals/ports.ts'
import type { StoredPolicy } from '../../src/domains/policies/ports.ts'
import { sqlApprovalStore } from '../../src/stores/sql/approval-store.ts'
import { sqlPolicyStore } from '../../src/stores/sql/policy-store.ts'
import { sqlTrustStore } from '../../src/stores/sql/trust-store.ts'
import { type DialectName, dialects, openEmpty } from '../support/databases.ts'

const ours = tenantId('acme')
const theirs = tenantId('other')

const approvalOf = (id: string, more: Partial<StoredApproval> = {}): StoredApproval => ({
  tenant: ours,
  id,
  toolId: 'tool-id',
  tool: 'up__send',
  arguments: { to: ['ann@example.com'], body: 'ü' },
  isMasked: true,
  argumentsDigest: 'digest',
  reason: 'why',
  policy: 'policy-id',
  requester: 'user:ann',
  requestedBy: 'ann@example.com',
  context: 'session:s',
  startedFrom: 'session:t',
  callId: 'c_1',
  runId: 'run',
  waitKey: 'approval/a',
  status: 'pending',
  createdAtMs: 1_700_000_000_000,
  expiresAtMs: 1_700_000_100_000,
  answeredAtMs: null,
  answeredBy: null,
  note: null,
  usedAtMs: null,
  ...more,
})
const NOW = 1_700_000_050_000

async function open(dialect: DialectName) {
  const database = await openEmpty(dialect)
  onTestFinished(() => database.close())
  return database
}

const policyOf = (id: string, position: number, more: Partial<StoredPolicy> = {}): StoredPolicy => ({
  tenant: ours,
  id,
  kind: 'invocation',
  toolId: 'tool-id',
  conditions: [{ key: 'to[*]', operator: 'endsWith', value: '@example.com', quantifier: 'none' }],
  action: 'block_always',
  note: 'why',
  position,
  createdAtMs: 1_700_000_000_000,
  updatedAtMs: 1_700_000_000_001,
  ...more,
})

describe.each(dialects)('approvals over %s', (dialect) => {
  test('have all their fields, and are there for their tenant alone', async () => {
    const database = await open(dialect)
    const one = approvalOf('a')
    await database.write(ours, (tx) => sqlApprovalStore.insertApproval(tx, ours, one))
    expect(await sqlApprovalStore.findApproval(database.read, ours, 'a')).toEqual(one)
    expect(await sqlApprovalStore.findApproval(database.read, theirs, 'a')).toBeUndefined()
    expect(await sqlApprovalStore.listApprovals(database.read, theirs, { limit: 9 })).toEqual([])
  })

  test('are found for their very call, while they count', async () => {
    const database = await open(dialect)
    const insert = (one: StoredApproval) => database.write(ours, (tx) => sqlApprovalStore.insertApproval(tx, ours, one))
    const outside = { startedFrom: null, runId: null, waitKey: null }
    await insert(approvalOf('old', { ...outside, status: 'denied', createdAtMs: 1, expiresAtMs: 2 }))
    await insert(approvalOf('used', { ...outside, status: 'used', createdAtMs: 1_700_000_000_009 }))
    await insert(approvalOf('a', outside))
    const find = async (change: Partial<StoredApproval> = {}, nowMs = NOW) =>
      (await sqlApprovalStore.findForCall(database.read, ours, approvalOf('', { ...outside, ...change }), nowMs))?.id
    expect(await find()).toBe('a')
    expect(await find({ argumentsDigest: 'other' })).toBeUndefined()
    expect(await find({ context: 'session:other' })).toBe('a')
    const run = { context: 'execution:r1', startedFrom: 'session:s' } as const
    expect(await find(run)).toBeUndefined()
    await insert(approvalOf('of-run', { ...run, createdAtMs: 1_700_000_000_009 }))
    expect(await find(run)).toBe('of-run')
    expect(await find({ ...run, context: 'execution:r2' })).toBeUndefined()
    expect(await find()).toBe('a')
    expect(await find({ requester: 'user:bob' })).toBeUndefined()
    expect(await find({ toolId: 'other' })).toBeUndefined()
    expect(await find({}, 1_700_000_100_000)).toBeUndefined()
  })

  test('are answered once, listed by what is asked for, counted and cleaned up', async () => {
    const database = await open(dialect)
    const all = [approvalOf('a'), approvalOf('b', { requester: 'user:bob', createdAtMs: 1_700_000_000_005 })]
    const move = (from: StoredApproval['status'], to: Partial<StoredApproval>) =>
      database.write(ours, (tx) => sqlApprovalStore.moveApproval(tx, ours, { ...all[0]!, ...to }, from))
    for (const one of all) await database.write(ours, (tx) => sqlApprovalStore.insertApproval(tx, ours, one))
    const ids = async (filter: object) =>
      (await sqlApprovalStore.listApprovals(database.read, ours, { limit: 9, ...filter })).map(({ id }) => id)
    expect(await ids({})).toEqual(['b', 'a'])
    expect(await ids({ requester: 'user:ann' })).toEqual(['a'])
    expect(await database.write(ours, (tx) => sqlApprovalStore.countPending(tx, ours, 'user:ann', NOW))).toBe(1)
    const answered = {
      status: 'approved',
      answeredAtMs: NOW,
      answeredBy: 'eve',
      note: 'fine',
      expiresAtMs: NOW + 5,
    } as const
    expect(await move('pending', answered)).toBe(true)
    expect(await move('pending', { status: 'denied' })).toBe(false)
    expect(await sqlApprovalStore.findApproval(database.read, ours, 'a')).toEqual({ ...all[0], ...answered })
    expect(await ids({ pendingAtMs: NOW })).toEqual(['b'])
    expect(await ids({ pendingAtMs: NOW, requester: 'user:ann' })).toEqual([])
    await database.write(ours, (tx) => sqlApprovalStore.deleteOver(tx, ours, NOW + 6))
    expect(await ids({})).toEqual(['b'])
  })
})

describe.each(dialects)('policies over %s', (dialect) => {
  test('have all their fields, in their order, for their tenant alone', async () => {
    const database = await open(dialect)
    const all = [policyOf('b', 1), policyOf('a', 2, { kind: 'trusted_data', action: 'mark_as_trusted', note: null })]
    for (const one of all.toReversed()) await database.write(ours, (tx) => sqlPolicyStore.insertPolicy(tx, ours, one))
    expect(await sqlPolicyStore.listPolicies(database.read, ours)).toEqual(all)
    expect(await sqlPolicyStore.listPolicies(database.read, theirs)).toEqual([])
    expect(await sqlPolicyStore.findPolicy(database.read, theirs, 'a')).toBeUndefined()
    expect(await sqlPolicyStore.extent(database.read, ours)).toEqual({ count: 2, lastPosition: 2 })
    expect(await sqlPolicyStore.extent(database.read, theirs)).toEqual({ count: 0, lastPosition: 0 })
    const saved = { ...all[0]!, conditions: [], note: null, action: 'require_approval' as const, updatedAtMs: 9 }
    await database.write(ours, (tx) => sqlPolicyStore.savePolicy(tx, ours, saved))
    expect(await sqlPolicyStore.findPolicy(database.read, ours, 'b')).toEqual(saved)
    expect(await database.write(ours, (tx) => sqlPolicyStore.deletePolicy(tx, ours, 'b'))).toBe(true)
    expect(await database.write(ours, (tx) => sqlPolicyStore.deletePolicy(tx, ours, 'b'))).toBe(false)
  })

  test('have one default of a tool, and a number that grows with each change', async () => {
    const database = await open(dialect)
    const insert = (one: StoredPolicy) => database.write(ours, (tx) => sqlPolicyStore.insertPolicy(tx, ours, one))
    await insert(policyOf('a', 1, { conditions: [] }))
    await expect(insert(policyOf('b', 2, { conditions: [] }))).rejects.toThrow()
    await insert(policyOf('c', 3, { conditions: [], kind: 'trusted_data', action: 'block_always' }))
    for (const expected of [1, 2]) {
      await database.write(ours, (tx) => sqlPolicyStore.raiseVersion(tx, ours))
      expect(await sqlPolicyStore.versions(database.read)).toEqual(new Map([[ours, expected]]))
    }
  })
})

describe.each(dialects)('the trust of contexts over %s', (dialect) => {
  test('has the first cause, for its tenant alone, until it is cleared', async () => {
    const database = await open(dialect)
    const cause = { kind: 'tool_result', tool: 't' } as const
    const first: Parameters<typeof sqlTrustStore.insertTaint>[2] = {
      ...{ tenant: ours, context: 'session:s', cause, sinceMs: 5, credential: 'key:k', seenMs: 5 },
    }
    const taint = (one: Parameters<typeof sqlTrustStore.insertTaint>[2]) =>
      database.write(ours, (tx) => sqlTrustStore.insertTaint(tx, ours, one))
    await taint(first)
    await taint({ ...first, cause: { kind: 'inherited' }, sinceMs: 6, seenMs: 6 })
    await taint({ ...first, context: 'workspace:w', sinceMs: 7, credential: null, seenMs: 7 })
    expect(await sqlTrustStore.findTaint(database.read, ours, 'session:s')).toEqual({ ...first, seenMs: 6 })
    const ofKey = async (tenant: typeof ours, from: number) =>
      (await sqlTrustStore.findOfCredential(database.read, tenant, 'key:k', from))?.context
    expect([await ofKey(ours, 6), await ofKey(ours, 7), await ofKey(theirs, 0)]).toEqual([
      'session:s',
      undefined,
      undefined,
    ])
    expect(await sqlTrustStore.findTaint(database.read, theirs, 'session:s')).toBeUndefined()
    const listed = await sqlTrustStore.listTaints(database.read, ours, 1)
    expect(listed.map(({ context }) => context)).toEqual(['workspace:w'])
    expect(await sqlTrustStore.tenants(database.read)).toEqual([ours])
    expect(await database.write(ours, (tx) => sqlTrustStore.deleteTaint(tx, ours, 'session:s'))).toBe(true)
    expect(await database.write(ours, (tx) => sqlTrustStore.deleteTaint(tx, ours, 'session:s'))).toBe(false)
  })
})
