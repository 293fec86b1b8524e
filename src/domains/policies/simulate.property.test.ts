import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Condition, invocationActions } from '../../contract/policy-conditions.ts'
import { LOCAL_TENANT, localOwner } from '../../contract/principal.ts'
import type { PolicyTool } from '../../contract/tool-policies.ts'
import { compilePolicies } from './compile.ts'
import { type Governance, judgeCall } from './evaluate.ts'
import type { StoredPolicy } from './ports.ts'
import { recordedTrust, simulateCall } from './simulate.ts'

const values = ['x', 'y'] as const
const condition = fc.record({
  key: fc.constantFrom('a', 'b', 'context.teamIds', 'context.origin'),
  value: fc.constantFrom(...values),
})
const policies = fc
  .array(
    fc.record({
      id: fc.integer({ min: 1, max: 6 }),
      action: fc.constantFrom(...invocationActions),
      found: fc.array(condition, { maxLength: 2 }),
    }),
    { maxLength: 5 },
  )
  .map((all) =>
    all.map(({ id, action, found }, position): StoredPolicy<'invocation'> => {
      const conditions = found.map(
        ({ key, value }): Condition => ({ key, value, operator: key === 'context.teamIds' ? 'contains' : 'equal' }),
      )
      const own = { tenant: LOCAL_TENANT, kind: 'invocation', toolId: 't', note: null } as const
      // Equal ids are the same policy in both sets.
      const name = `p${id}-${action}-${JSON.stringify(found)}`
      return { ...own, id: name, conditions, action, position, createdAtMs: 0, updatedAtMs: 0 }
    }),
  )
const tool = fc.constantFrom<PolicyTool>(
  { id: 't', name: 'mail__send', origin: 'upstream' },
  { id: 't', name: 'update_limit', origin: 'platform', builtIn: { governs: true } },
  { id: 't', name: 'task_list', origin: 'platform' },
)
/** All that is true of a call, of which the log knows a part. */
const call = fc.record({
  args: fc.record({ a: fc.constantFrom(...values), b: fc.constantFrom(...values) }, { requiredKeys: [] }),
  teams: fc.subarray([...values]),
  origin: fc.constantFrom('stdio' as const, 'cli' as const),
  isUntrusted: fc.boolean(),
  knowsArguments: fc.boolean(),
})
const governance = fc.constantFrom<Governance>('permissive', 'restrictive')

describe('a simulation', () => {
  it('says of every call that it decides what the engine says, and decides where nothing is unknown', () => {
    fc.assert(
      fc.property(policies, policies, tool, call, governance, (one, other, called, truth, mode) => {
        const [before, after] = [compilePolicies(one), compilePolicies(other)]
        const subject = { principal: { ...localOwner, teams: truth.teams }, origin: truth.origin }
        const verdicts = [before, after].map((set) =>
          judgeCall(set, mode, { ...subject, isUntrusted: truth.isUntrusted }, called, truth.args),
        )
        const recorded = { principal: localOwner, origin: truth.origin }
        const isUntrusted = recordedTrust(verdicts[0]!.trace)
        expect([undefined, truth.isUntrusted]).toContain(isUntrusted)
        const args = truth.knowsArguments ? { args: { value: truth.args } } : {}
        const result = simulateCall(before, after, mode, { subject: recorded, tool: called, isUntrusted, ...args })
        const [was, is] = verdicts.map(({ action }) => action)
        if (result.kind === 'changed') expect([result.before, result.after]).toEqual([was, is])
        if (result.kind === 'unchanged') expect(was).toBe(is)
        if (result.kind === 'undecided') expect(result.because.size).toBeGreaterThan(0)
        const known = { subject, tool: called, isUntrusted: truth.isUntrusted, args: { value: truth.args } }
        const hasTeams = [...one, ...other].some(({ conditions }) =>
          conditions.some(({ key }) => key === 'context.teamIds'),
        )
        if (!hasTeams) expect(simulateCall(before, after, mode, known).kind).not.toBe('undecided')
      }),
      { numRuns: 2_000 },
    )
  })
})
