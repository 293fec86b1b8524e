import type { LogEntry } from '../../audit/ports.ts'
import type { ToolAssignments } from '../../domains/gateways/assignments.ts'
import { delegationPolicyTool, invalid, readClientTool, readDelegation } from '../../domains/policies/rules.ts'
import { createPolicyService, type Reading, type RecordedCall } from '../../domains/policies/service.ts'
import type { ProfileService } from '../../domains/profiles/service.ts'
import { createTrustContexts } from '../../domains/trust/contexts.ts'
import { sqlLogStore } from '../../stores/sql/log-store.ts'
import { sqlPolicyStore } from '../../stores/sql/policy-store.ts'
import { sqlTrustStore } from '../../stores/sql/trust-store.ts'
import { policyToolOf } from '../../tools/runtime/guard.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import type { Guardrails } from './open-tool-policies.ts'

export type PolicyServices = Pick<Services, 'policies' | 'trust'>

type Parts = Readonly<{
  guardrails: Guardrails
  views: Pick<ToolViews, 'own'>
  assignments: Pick<ToolAssignments, 'resolve'>
  sharing: Pick<ProfileService, 'find' | 'findAllNamed'>
}>

/** What people write and see of policies and of the trust of contexts. */
export function openPolicyServices(
  { random }: AppDeps,
  { guardrails, views, assignments, sharing }: Parts,
): PolicyServices {
  const { engine, trust } = guardrails

  async function findDelegation({ read, principal }: Reading, toolId: string) {
    const agent = readDelegation(toolId)
    if (agent === undefined) return undefined
    const found = await sharing.find(read, principal, 'agent', agent)
    if (found === undefined) return undefined
    if (found.id !== agent && (await sharing.findAllNamed(read, principal, 'agent', agent)).length > 1)
      throw invalid('toolId', 'several agents have that name; give agent:ID')
    return delegationPolicyTool(found.id, `agent__${found.slug}`)
  }

  return {
    trust: createTrustContexts({ store: sqlTrustStore, trust }),
    policies: createPolicyService({
      store: sqlPolicyStore,
      engine,
      trust,
      random,
      async findTool(call, toolId) {
        const client = readClientTool(toolId)
        if (client !== undefined) return client
        const found = await assignments.resolve(call, toolId)
        if (found === undefined) return await findDelegation(call, toolId)
        const own = views.own.find(found.id)
        if (own === undefined) return { ...found, origin: 'upstream' as const }
        return { ...policyToolOf(own), parameters: own.parameters }
      },
      async recordedCalls({ read, principal: { tenant } }, from, count) {
        const { size } = await sqlLogStore.head(read, tenant)
        const fromSeq = Math.min(from ?? Math.max(0, size - count), size)
        const entries = await sqlLogStore.entries(read, tenant, fromSeq, count)
        const next = fromSeq + entries.length
        return { fromSeq, nextSeq: next < size ? next : null, calls: entries.flatMap(callsIn) }
      },
      requireSanitiser: guardrails.sanitiser.requireModels,
    }),
  }
}

type Recorded = Omit<RecordedCall, 'seq' | 'transport'> & Readonly<Record<typeof TRANSPORT, string>>

/** The name under which the log has had the transport of a call from its beginning. */
const TRANSPORT = 'door'

/** The calls of one entry: its own, or those of a list of reads. */
function callsIn({ seq, record }: LogEntry): readonly RecordedCall[] {
  const entry = JSON.parse(record) as Recorded & Readonly<{ kind: string; calls?: readonly Recorded[] }>
  const calls = entry.kind === 'call' ? [entry] : entry.kind === 'reads' ? (entry.calls ?? []) : []
  return calls.map((call) => ({ ...call, seq, transport: call[TRANSPORT] }))
}
