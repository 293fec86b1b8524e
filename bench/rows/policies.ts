/** One call judged by 1,000 policies for its tool of which none blocks it, so that every one is looked at. */
import { LOCAL_TENANT, localOwner } from '../../src/contract/principal.ts'
import { compilePolicies } from '../../src/domains/policies/compile.ts'
import { judgeCall } from '../../src/domains/policies/evaluate.ts'
import type { Section } from '../bench-context.ts'
import { median } from '../interleave.ts'

const POLICIES = 1_000
const CALLS_PER_ROUND = 500
const TARGET_MICROS = 50
const operators = ['equal', 'startsWith', 'endsWith', 'contains', 'notEqual'] as const

/** The first condition holds for one in five, so that second conditions are looked at too. */
const policies = compilePolicies(
  Array.from({ length: POLICIES }, (_, position) => ({
    tenant: LOCAL_TENANT,
    id: `policy-${position}`,
    kind: 'invocation' as const,
    toolId: 'files__send',
    action: 'block_always' as const,
    note: null,
    position,
    createdAtMs: 0,
    updatedAtMs: 0,
    conditions: [
      { key: 'folder', operator: operators[position % operators.length]!, value: `/srv/department-${position}/` },
      { key: 'recipients[*].address', operator: 'endsWith', value: `@partner-${position}.example`, quantifier: 'any' },
    ],
  })),
)
const tool = { id: 'files__send', name: 'files__send', origin: 'upstream' } as const
const subject = { principal: localOwner, isUntrusted: false }
const args = {
  folder: '/srv/shared/reports/2026/quarterly/',
  recipients: [{ address: 'anna@example.org' }, { address: 'ben@example.org' }, { address: 'cleo@example.org' }],
}

export const policyEvaluation: Section = {
  name: 'policies',
  timeNeededMs: () => 5_000,
  async run(bench) {
    const rounds: number[] = []
    for (let round = 0; round < 40; round++) {
      const { user: before } = process.cpuUsage()
      for (let call = 0; call < CALLS_PER_ROUND; call++) {
        const { action } = judgeCall(policies, 'permissive', subject, tool, args)
        if (action !== 'allow') throw new Error(`the call was judged ${action}`)
      }
      if (round >= 10) rounds.push((process.cpuUsage().user - before) / CALLS_PER_ROUND)
    }
    const micros = median(rounds)
    bench.report({
      what: `a call judged by ${POLICIES} policies, in µs of processor time`,
      inFlight: null,
      ours: `${micros.toFixed(1)} µs`,
      peer: '',
      ratio: micros,
      target: { atMost: TARGET_MICROS },
    })
  },
}
