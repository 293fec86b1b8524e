import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import {
  type Condition,
  type InvocationAction,
  operators,
  type ResultAction,
} from '../../contract/policy-conditions.ts'
import type { PolicyTool } from '../../contract/tool-policies.ts'
import { ruledNameOf } from '../../contract/tool-spellings.ts'
import type { Trust } from '../../contract/trust.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import { checkCondition, compilePolicies, type PolicySet, requireParameters, undescribed } from './compile.ts'
import type { PolicyEngine } from './engine.ts'
import type { PolicyKind, PolicyStore, StoredPolicy } from './ports.ts'
import { invalid, isDelegation, operatorLabels, policyNotFound, readClientTool, requireOrigins } from './rules.ts'
import { createSimulation, type SimulatedCalls, type SimulationDeps } from './simulation.ts'
import { type ReferenceDeps, staleReferences } from './stale-references.ts'
import { unseenBy } from './unseen-values.ts'

export type Reading = Pick<Call, 'principal' | 'read'>

type PolicyDeps = Pick<SimulationDeps, 'recordedCalls' | 'retainedArguments' | 'validated'> &
  Pick<ReferenceDeps, 'hasTeam' | 'hasProfile'> &
  Readonly<{
    store: PolicyStore
    engine: PolicyEngine
    trust: Pick<Trust, 'contextOf' | 'isUntrusted' | 'hasReadUntrusted'>
    random: Random
    /** By id or name; undefined if there is none or the caller may not see it. */
    findTool(call: Reading, toolId: string): Promise<KnownTool | undefined>
    /** Names of tools that the caller sees and may have meant, the best first. */
    nearestTools(call: Reading, toolId: string): readonly string[]
    /** Throws ERR_MODEL_UNAVAILABLE where no model can sanitise results. */
    requireSanitiser(): void
  }>

type KnownTool = PolicyTool &
  Readonly<{
    id: string
    /** The only parameters of the tool. */
    parameters?: ReadonlySet<string>
    /** Of a tool that may take others too. */
    described?: ReadonlySet<string>
    /** Other tools that run commands, of one that does. */
    otherRunners?: readonly string[]
    /** The JSON schema of its arguments, if it is known. */
    inputSchema?: unknown
  }>

type Fields<Kind extends PolicyKind> = Readonly<{
  toolId: string
  conditions: readonly Condition[]
  action: StoredPolicy<Kind>['action']
  note?: string | null | undefined
}>
type Changes<Kind extends PolicyKind> = Readonly<{ id: string }> & {
  readonly [Field in keyof Fields<Kind>]?: Fields<Kind>[Field] | undefined
}

export type PolicyService = ReturnType<typeof createPolicyService>

/** The policies that people write for tools. A stored policy works: every key, pattern and tool is checked first. */
export function createPolicyService(deps: PolicyDeps) {
  const { store, engine, random } = deps
  const simulation = createSimulation(deps)

  async function requireTool(call: Reading, toolId: string, kind: PolicyKind = 'invocation', field = 'toolId') {
    const found = await deps.findTool(call, toolId)
    if (kind === 'trusted_data' && found !== undefined && isDelegation(found.id))
      throw invalid(
        'toolId',
        'the answer of an agent is as trusted as the data that it read; name the tools that it reads with',
      )
    if (found !== undefined) return found
    const nearest = deps.nearestTools(call, toolId)
    const suggestion = nearest.length > 0 ? ` Nearest: ${nearest.join(', ')}.` : ''
    throw new AppError(
      'ERR_NOT_FOUND',
      `${field}: there is no such tool.${suggestion} Give the name of a tool, the id that get_mcp_server_tools shows, or agent:ID for delegating tasks to an agent.`,
      { field, nearest },
    )
  }

  function requireUsable(kind: PolicyKind, conditions: readonly Condition[], action: InvocationAction | ResultAction) {
    for (const [index, condition] of conditions.entries()) checkCondition(condition, `conditions[${index}]`)
    if (action === 'sanitize_with_dual_llm') deps.requireSanitiser()
    if (kind === 'trusted_data' && conditions.some(({ key }) => key.startsWith('context.')))
      throw invalid('conditions', 'must be about the result; only tool invocation policies can use keys of the context')
  }

  /**
   * Refuses a condition on an argument that the tool cannot take. Warns of a condition on one that it does not
   * describe, and of calls that a blocking policy would never match.
   */
  function checkArguments(
    call: Pick<Call, 'warn'>,
    conditions: readonly Condition[],
    action: InvocationAction | ResultAction,
    tool: KnownTool | undefined,
  ) {
    requireParameters(conditions, tool?.parameters)
    const unknown = undescribed(conditions, tool?.described)
    for (const index of unknown)
      call.warn(
        `conditions[${index}].key: the MCP server describes no such argument of this tool, so the condition may never match. get_mcp_server_tools shows the described arguments.`,
      )
    if (action === 'allow_when_context_is_untrusted' || tool === undefined) return
    for (const [index, condition] of conditions.entries()) {
      const unseen = unknown.includes(index) ? undefined : unseenBy(condition, tool)
      if (unseen !== undefined) call.warn(`conditions[${index}]: ${unseen}`)
    }
  }

  async function require<Kind extends PolicyKind>(call: Reading, kind: Kind, id: string): Promise<StoredPolicy<Kind>> {
    const found = await store.findPolicy(call.read, call.principal.tenant, id)
    if (found?.kind === kind) return found as StoredPolicy<Kind>
    throw policyNotFound(kind === 'invocation' ? 'get_tool_invocation_policies' : 'get_trusted_data_policies')
  }

  const defaultOf = async (call: Reading, toolId: string): Promise<StoredPolicy | undefined> =>
    (await store.listPolicies(call.read, call.principal.tenant)).find(
      (one) =>
        one.kind === 'invocation' && ruledNameOf(one.toolId) === ruledNameOf(toolId) && one.conditions.length === 0,
    )

  async function list<Kind extends PolicyKind>(call: Reading, kind: Kind): Promise<StoredPolicy<Kind>[]> {
    const all = await store.listPolicies(call.read, call.principal.tenant)
    return all.filter((policy): policy is StoredPolicy<Kind> => policy.kind === kind)
  }

  async function create<Kind extends PolicyKind>(call: Call, kind: Kind, input: Fields<Kind>) {
    const { tenant } = call.principal
    const { conditions, action, note = null } = input
    requireUsable(kind, conditions, action)
    requireOrigins(conditions)
    const tool = await requireTool(call, input.toolId, kind)
    const { id: toolId, otherRunners } = tool
    if (kind === 'invocation') checkArguments(call, conditions, action, tool)
    if (kind === 'invocation' && otherRunners !== undefined && action !== 'allow_when_context_is_untrusted')
      call.warn(
        `The policy applies only to this tool. These tools also run commands: ${otherRunners.join(', ')}. A local MCP server runs a command too: create_mcp_server and edit_mcp_config set it, deploy_mcp_server and install_mcp_server let it start.`,
      )
    // A tool has one default for its calls: creating it again changes it.
    const existing = kind === 'invocation' && conditions.length === 0 ? await defaultOf(call, toolId) : undefined
    if (existing !== undefined) {
      if (existing.action !== action || existing.note !== note) call.warn(replacedDefault(existing))
      return await save(call, { ...(existing as StoredPolicy<Kind>), action, note })
    }
    const { count, lastPosition } = await store.extent(call.read, tenant)
    if (count >= limits.toolPoliciesMax) {
      throw new AppError(
        'ERR_QUOTA_EXCEEDED',
        `The limit of ${limits.toolPoliciesMax} policies is reached. Delete some first.`,
      )
    }
    const policy: StoredPolicy<Kind> = {
      tenant,
      id: uuidOf(random.bytes(16)),
      kind,
      toolId,
      conditions,
      action,
      note,
      position: lastPosition + 1,
      createdAtMs: call.nowMs,
      updatedAtMs: call.nowMs,
    }
    await store.insertPolicy(call.write, tenant, policy)
    await changed(call, 'tool_policy_created', policy)
    return policy
  }

  async function update<Kind extends PolicyKind>(call: Call, kind: Kind, input: Changes<Kind>) {
    const before = await require(call, kind, input.id)
    const conditions = input.conditions ?? before.conditions
    const action = input.action ?? before.action
    requireUsable(kind, conditions, action)
    requireOrigins(input.conditions ?? [])
    const tool =
      input.toolId === undefined
        ? await deps.findTool(call, before.toolId)
        : await requireTool(call, input.toolId, kind)
    const toolId = input.toolId === undefined ? before.toolId : tool!.id
    if (kind === 'invocation') checkArguments(call, conditions, action, tool)
    if (kind === 'invocation' && conditions.length === 0) {
      const other = await defaultOf(call, toolId)
      if (other !== undefined && other.id !== before.id) {
        throw new AppError(
          'ERR_ALREADY_EXISTS',
          'conditions: the tool already has a default policy. Change that one, or add conditions to this one.',
          { field: 'conditions', id: other.id },
        )
      }
    }
    return await save(call, {
      ...before,
      toolId,
      conditions,
      action,
      note: input.note === undefined ? before.note : input.note,
    })
  }

  async function save<Kind extends PolicyKind>(call: Call, policy: StoredPolicy<Kind>) {
    const after = { ...policy, updatedAtMs: call.nowMs }
    await store.savePolicy(call.write, policy.tenant, after)
    await changed(call, 'tool_policy_updated', after)
    return after
  }

  async function remove(call: Call, kind: PolicyKind, id: string) {
    const found = await require(call, kind, id)
    await store.deletePolicy(call.write, found.tenant, found.id)
    await engine.noteChange(call.write, found.tenant)
    call.record({ kind: 'tool_policy_deleted', body: { id: found.id, policy_kind: kind, by: call.principal.actor } })
    return { success: true }
  }

  async function changed(call: Call, effect: string, policy: StoredPolicy): Promise<void> {
    await engine.noteChange(call.write, policy.tenant)
    const { id, kind: policy_kind, toolId: tool_id, action, note, conditions } = policy
    const body = { id, policy_kind, tool_id, action, note, conditions: conditions as unknown as Json }
    call.record({ kind: effect, body: { ...body, by: call.principal.actor } })
  }

  /** Warns the caller of policies that name something that no longer exists. */
  async function warned<Policy extends StoredPolicy>(
    call: Call,
    policies: readonly Policy[],
  ): Promise<readonly Policy[]> {
    for (const warning of (await staleReferences(deps, call, policies)).slice(0, limits.staleReferencesMax))
      call.warn(warning)
    return policies
  }
  const warnedOne = async <Policy extends StoredPolicy>(call: Call, policy: Policy): Promise<Policy> =>
    (await warned(call, [policy]))[0]!

  /** The name of the tool as well, where its id is none. */
  async function viewedOne<Policy extends StoredPolicy, View>(
    call: Reading,
    policy: Policy,
    view: (policy: Policy) => View,
  ): Promise<View & Readonly<{ toolName?: string }>> {
    const { toolId } = policy
    const hasName = readClientTool(toolId) !== undefined
    const toolName = hasName ? toolId : (await deps.findTool(call, toolId))?.name
    return { ...view(policy), ...(toolName === undefined || toolName === toolId ? {} : { toolName }) }
  }
  const viewed = <Policy extends StoredPolicy, View>(
    call: Reading,
    policies: readonly Policy[],
    view: (policy: Policy) => View,
  ) => Promise.all(policies.map((policy) => viewedOne(call, policy, view)))

  /** The verdict on a call or a result if it came now. Nothing is called and nothing changes. */
  async function explain(
    call: Pick<Call, 'principal' | 'read' | 'transport'>,
    input: Readonly<{ tool: string; arguments: unknown; untrusted?: boolean | undefined; result?: unknown }>,
  ) {
    const { principal, transport } = call
    const tool = await requireTool(call, input.tool, 'invocation', 'tool')
    const { isUntrusted: ofContext, hasReadUntrusted } = deps.trust
    const found = tool.builtIn?.governs === true ? hasReadUntrusted : ofContext
    const isUntrusted = input.untrusted ?? (await found(principal))
    const profile = principal.gateway ?? principal.agent
    const subject = { principal, origin: transport, isUntrusted, ...(profile !== undefined && { profile }) }
    const verdict = await engine.judgeCall(subject, tool, input.arguments)
    const answered = input.result === undefined ? undefined : await engine.judgeResult(subject, tool, input.result)
    return {
      tool: tool.name,
      tool_id: tool.id,
      context: { id: deps.trust.contextOf(principal), untrusted: isUntrusted },
      governance: engine.governance,
      call: {
        action: verdict.action,
        policy: verdict.policy ?? null,
        decided_by: verdict.specificity,
        reason: verdict.reason,
        because_untrusted: verdict.becauseUntrusted,
      },
      result:
        answered === undefined
          ? null
          : { action: answered.action, policy: answered.policy ?? null, reason: answered.reason },
    }
  }

  /** The stored policies without the removed ones and with the given ones; or only the given ones. */
  async function changedSet(call: Reading, { policies, remove = [], only = false }: Simulation): Promise<PolicySet> {
    const stored = only ? [] : await store.listPolicies(call.read, call.principal.tenant)
    for (const [index, id] of remove.entries())
      if (!stored.some((one) => one.id === id)) throw policyNotFound('get_tool_invocation_policies', `remove[${index}]`)
    const added: StoredPolicy[] = []
    for (const [index, { toolId, conditions, action }] of policies.entries()) {
      requireUsable('invocation', conditions, action)
      requireOrigins(conditions)
      const { id, parameters } = await requireTool(call, toolId, 'invocation', `policies[${index}].toolId`)
      requireParameters(conditions, parameters)
      const times = { position: limits.toolPoliciesMax + index, createdAtMs: 0, updatedAtMs: 0 }
      const own = { tenant: call.principal.tenant, kind: 'invocation', note: null } as const
      added.push({ ...own, ...times, id: `given-${index + 1}`, toolId: id, conditions, action })
    }
    return compilePolicies([...stored.filter(({ id }) => !remove.includes(id)), ...added])
  }

  return {
    explain,
    /** Which recorded calls would have had another verdict. Nothing is called and nothing changes. */
    async simulate(call: Reading & Pick<Call, 'warn'>, input: Simulation & SimulatedCalls) {
      const after = await changedSet(call, input)
      const index = input.policies.findIndex(({ toolId }) => readClientTool(toolId) !== undefined)
      if (index !== -1) call.warn(notSimulated(index))
      return await simulation.run(call, after, input)
    },
    operators: () => ({ operators: operators.map((value) => ({ value, label: operatorLabels[value] })) }),
    invocation: {
      list: async (call: Call) => ({
        policies: await viewed(call, await warned(call, await list(call, 'invocation')), invocationView),
      }),
      get: async (call: Call, { id }: { id: string }) => ({
        policy: await viewedOne(call, await warnedOne(call, await require(call, 'invocation', id)), invocationView),
      }),
      create: async (call: Call, { reason, ...input }: WithReason<Fields<'invocation'>>) => ({
        policy: await viewedOne(
          call,
          await warnedOne(call, await create(call, 'invocation', { ...input, note: reason })),
          invocationView,
        ),
      }),
      update: async (call: Call, { reason, ...input }: WithReason<Changes<'invocation'>>) => ({
        policy: await viewedOne(
          call,
          await warnedOne(call, await update(call, 'invocation', { ...input, note: reason })),
          invocationView,
        ),
      }),
      remove: (call: Call, { id }: { id: string }) => remove(call, 'invocation', id),
    },
    trustedData: {
      list: async (call: Call) => ({
        policies: await viewed(call, await warned(call, await list(call, 'trusted_data')), resultView),
      }),
      get: async (call: Call, { id }: { id: string }) => ({
        policy: await viewedOne(call, await warnedOne(call, await require(call, 'trusted_data', id)), resultView),
      }),
      create: async (call: Call, { description, ...input }: WithDescription<Fields<'trusted_data'>>) => ({
        policy: await viewedOne(call, await create(call, 'trusted_data', { ...input, note: description }), resultView),
      }),
      update: async (call: Call, { description, ...input }: WithDescription<Changes<'trusted_data'>>) => ({
        policy: await viewedOne(call, await update(call, 'trusted_data', { ...input, note: description }), resultView),
      }),
      remove: (call: Call, { id }: { id: string }) => remove(call, 'trusted_data', id),
    },
  }
}

const notSimulated = (index: number): string =>
  `policies[${index}].toolId: this tries the calls of tools here and behind this server, not the calls of programs' own tools. policy_explain says what becomes of one.`

const replacedDefault = ({ id, action }: StoredPolicy): string =>
  `The tool already had a default policy (${id}) with the action ${action}. A tool has one: it was replaced. Use conditions for calls that need another rule.`

type Simulation = Readonly<{
  policies: readonly Readonly<{ toolId: string; conditions: readonly Condition[]; action: InvocationAction }>[]
  remove?: readonly string[] | undefined
  only?: boolean | undefined
}>

type WithReason<T> = Omit<T, 'note'> & Readonly<{ reason?: string | null | undefined }>
type WithDescription<T> = Omit<T, 'note'> & Readonly<{ description?: string | null | undefined }>

const viewOf = <Kind extends PolicyKind>({ id, toolId, conditions, action }: StoredPolicy<Kind>) => ({
  id,
  toolId,
  conditions,
  action,
})
const invocationView = (policy: StoredPolicy<'invocation'>) => ({ ...viewOf(policy), reason: policy.note })
const resultView = (policy: StoredPolicy<'trusted_data'>) => ({ ...viewOf(policy), description: policy.note })
