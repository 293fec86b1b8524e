import type { LogEntry } from '../../audit/ports.ts'
import { recordedCalls } from '../../audit/recorded-calls.ts'
import { WEBHOOK_TOOL } from '../../contract/tool-policies.ts'
import { spellingsOf } from '../../contract/tool-spellings.ts'
import type { ToolAssignments } from '../../domains/gateways/assignments.ts'
import type { InteractionRecorder } from '../../domains/interactions/recorder.ts'
import { delegationPolicyTool, invalid, readClientTool, readDelegation } from '../../domains/policies/rules.ts'
import { createPolicyService, type Reading } from '../../domains/policies/service.ts'
import type { RecordedCall } from '../../domains/policies/simulation.ts'
import type { ProfileService } from '../../domains/profiles/service.ts'
import { createTrustContexts } from '../../domains/trust/contexts.ts'
import { sqlLogStore } from '../../stores/sql/log-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlPolicyStore } from '../../stores/sql/policy-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import { sqlTrustStore } from '../../stores/sql/trust-store.ts'
import { allRulesOf, permissionsOf } from '../../tools/runtime/call-rules.ts'
import type { CatalogTool } from '../../tools/runtime/catalog.ts'
import { policyToolOf } from '../../tools/runtime/guard.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import { webhookPolicyTool } from '../../tools/runtime/webhook-tool.ts'
import type { AppDeps } from '../build-app.ts'
import type { Guardrails } from './open-tool-policies.ts'
import { retainedArguments, validatedArguments } from './retained-arguments.ts'

export type PolicyServices = Pick<Services, 'policies' | 'trust'>

type Parts = Readonly<{
  guardrails: Guardrails
  views: Pick<ToolViews, 'own' | 'viewFor' | 'latest'>
  recorder: Pick<InteractionRecorder, 'settled'>
  assignments: Pick<ToolAssignments, 'resolve'>
  sharing: Pick<ProfileService, 'find' | 'findAllNamed'>
}>

/** Management of policies and of the trust of contexts. */
export function openPolicyServices(
  { random }: AppDeps,
  { guardrails, views, recorder, assignments, sharing }: Parts,
): PolicyServices {
  const { engine, trust } = guardrails
  /** A tool that can send from a workspace does so by a command there, even if only some of its calls run one. */
  const runsCommands = ({ definition }: CatalogTool): boolean =>
    definition.trust?.sends === 'open-network' ||
    allRulesOf(definition).some((rules) => permissionsOf(rules).includes('workspace:exec'))
  /** For a tool that runs commands: the other tools that do. */
  const otherRunnersOf = (tool: CatalogTool) =>
    runsCommands(tool)
      ? views.own.tools
          .filter((other) => runsCommands(other) && !spellingsOf(tool.name).includes(other.name))
          .map(({ name }) => name)
      : undefined

  async function findDelegation({ read, principal }: Reading, toolId: string) {
    const agent = readDelegation(toolId)
    if (agent === undefined) return undefined
    const found = await sharing.find(read, principal, 'agent', agent)
    if (found === undefined) return undefined
    if (found.id !== agent && (await sharing.findAllNamed(read, principal, 'agent', agent)).length > 1)
      throw invalid('toolId', 'several agents have this name. Use agent:ID')
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
        if (toolId === WEBHOOK_TOOL)
          return { ...policyToolOf(webhookPolicyTool), parameters: webhookPolicyTool.parameters }
        const found = await assignments.resolve(call, toolId)
        if (found === undefined) return await findDelegation(call, toolId)
        const own = views.own.find(found.id)
        if (own === undefined) {
          const { id, name, inputSchema } = found
          return { id, name, origin: 'upstream' as const, inputSchema, ...argumentsOf(inputSchema) }
        }
        const otherRunners = otherRunnersOf(own)
        const { parameters, listed } = own
        return {
          ...{ ...policyToolOf(own), parameters, inputSchema: listed.inputSchema },
          ...(otherRunners && { otherRunners }),
        }
      },
      nearestTools: ({ principal }, toolId) => views.latest(principal).names.nearest(toolId, SUGGESTED_MAX),
      hasTeam: async ({ read, principal }, id) =>
        (await sqlPeopleStore.findTeam(read, principal.tenant, id)) !== undefined,
      hasProfile: async ({ read, principal }, id) =>
        (await sqlProfileStore.findProfile(read, principal.tenant, id)) !== undefined,
      async recordedCalls({ read, principal: { tenant } }, from, count) {
        // Calls that only read are recorded a moment after their answer.
        await recorder.settled()
        const { size } = await sqlLogStore.head(read, tenant)
        const fromSeq = Math.min(from ?? Math.max(0, size - count), size)
        const entries = await sqlLogStore.entries(read, tenant, fromSeq, count)
        const next = fromSeq + entries.length
        return { fromSeq, nextSeq: next < size ? next : null, calls: entries.flatMap(callsIn) }
      },
      retainedArguments: (call, requested) => retainedArguments(recorder, call, requested),
      validated: ({ principal }, tool, args) => validatedArguments(views, principal, tool, args),
      requireSanitiser: guardrails.sanitiser.requireModels,
    }),
  }
}

const SUGGESTED_MAX = 3

type Recorded = Omit<RecordedCall, 'seq' | 'transport'> & Readonly<Record<typeof TRANSPORT, string>>

/** The log's field name for the transport of a call, since its first version. */
const TRANSPORT = 'door'

function callsIn({ seq, record }: LogEntry): readonly RecordedCall[] {
  const calls = recordedCalls(record) as readonly Recorded[]
  return calls.map((call) => ({ ...call, seq, transport: call[TRANSPORT] }))
}

/** The arguments of a tool by its schema: all that it takes, or those that it describes. */
function argumentsOf(schema: unknown): Readonly<{ parameters?: ReadonlySet<string>; described?: ReadonlySet<string> }> {
  const { properties, additionalProperties } = (schema ?? {}) as Readonly<Record<string, unknown>>
  if (typeof properties !== 'object' || properties === null) return {}
  const names = new Set(Object.keys(properties))
  return additionalProperties === false ? { parameters: names } : { described: names }
}
