import { AppError } from '../../contract/app-error.ts'
import type { Call, Transport } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import {
  type Condition,
  type InvocationAction,
  operators,
  type ResultAction,
} from '../../contract/policy-conditions.ts'
import type { Principal } from '../../contract/principal.ts'
import type { PolicySubject, PolicyTool } from '../../contract/tool-policies.ts'
import type { Trust } from '../../contract/trust.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import { checkCondition, compilePolicies, type PolicySet, requireParameters } from './compile.ts'
import type { PolicyEngine } from './engine.ts'
import type { PolicyKind, PolicyStore, StoredPolicy } from './ports.ts'
import { invalid, isDelegation, operatorLabels, policyNotFound } from './rules.ts'
import { simulateCall } from './simulate.ts'

export type Reading = Pick<Call, 'principal' | 'read'>

export type PolicyDeps = Readonly<{
  store: PolicyStore
  engine: PolicyEngine
  trust: Pick<Trust, 'contextOf' | 'isUntrusted'>
  random: Random
  /** By id or name, as the caller sees it; undefined for one that is not there or not the caller's. */
  findTool(call: Reading, toolId: string): Promise<KnownTool | undefined>
  /** Recorded calls of the tenant, of at most `entries` entries of its log from that position on. */
  recordedCalls(call: Reading, fromSeq: number | undefined, entries: number): Promise<RecordedPage>
  /** Throws ERR_MODEL_UNAVAILABLE where no model can sanitise results. */
  requireSanitiser(): void
}>

type KnownTool = PolicyTool &
  Readonly<{
    id: string
    /** Of a tool that takes no others. */
    parameters?: ReadonlySet<string>
  }>

export type RecordedCall = Readonly<{
  seq: number
  call_id: string
  at: string
  tool: string
  transport: string
  code?: string
  principal: Readonly<Record<string, string>>
}>
export type RecordedPage = Readonly<{ fromSeq: number; nextSeq: number | null; calls: readonly RecordedCall[] }>

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

/** The policies that people write for tools. What is stored can be carried out: every key, pattern and tool is checked first. */
export function createPolicyService(deps: PolicyDeps) {
  const { store, engine, random } = deps

  async function requireTool(call: Reading, toolId: string, kind: PolicyKind = 'invocation') {
    const found = await deps.findTool(call, toolId)
    if (kind === 'trusted_data' && found !== undefined && isDelegation(found.id))
      throw invalid('toolId', 'what an agent answers is as trusted as what it read; give the tools that it reads with')
    if (found !== undefined) return found
    throw new AppError(
      'ERR_NOT_FOUND',
      'toolId: there is no such tool. Give the name of a tool, the id that get_mcp_server_tools shows, or agent:ID for handing tasks on to an agent.',
      { field: 'toolId' },
    )
  }

  function requireUsable(kind: PolicyKind, conditions: readonly Condition[], action: InvocationAction | ResultAction) {
    for (const [index, condition] of conditions.entries()) checkCondition(condition, `conditions[${index}]`)
    if (action === 'sanitize_with_dual_llm') deps.requireSanitiser()
    if (kind === 'trusted_data' && conditions.some(({ key }) => key.startsWith('context.')))
      throw invalid('conditions', 'must be about the result: keys of the context are for tool invocation policies')
  }

  async function require<Kind extends PolicyKind>(call: Reading, kind: Kind, id: string): Promise<StoredPolicy<Kind>> {
    const found = await store.findPolicy(call.read, call.principal.tenant, id)
    if (found?.kind === kind) return found as StoredPolicy<Kind>
    throw policyNotFound(kind === 'invocation' ? 'get_tool_invocation_policies' : 'get_trusted_data_policies')
  }

  const defaultOf = async (call: Reading, toolId: string): Promise<StoredPolicy | undefined> =>
    (await store.listPolicies(call.read, call.principal.tenant)).find(
      (one) => one.kind === 'invocation' && one.toolId === toolId && one.conditions.length === 0,
    )

  async function list<Kind extends PolicyKind>(call: Reading, kind: Kind): Promise<StoredPolicy<Kind>[]> {
    const all = await store.listPolicies(call.read, call.principal.tenant)
    return all.filter((policy): policy is StoredPolicy<Kind> => policy.kind === kind)
  }

  async function create<Kind extends PolicyKind>(call: Call, kind: Kind, input: Fields<Kind>) {
    const { tenant } = call.principal
    const { conditions, action, note = null } = input
    requireUsable(kind, conditions, action)
    const { id: toolId, parameters } = await requireTool(call, input.toolId, kind)
    if (kind === 'invocation') requireParameters(conditions, parameters)
    // A tool has one default for its calls: making it again changes it.
    const existing = kind === 'invocation' && conditions.length === 0 ? await defaultOf(call, toolId) : undefined
    if (existing !== undefined) return await save(call, { ...(existing as StoredPolicy<Kind>), action, note })
    const { count, lastPosition } = await store.extent(call.read, tenant)
    if (count >= limits.toolPoliciesMax) {
      throw new AppError(
        'ERR_QUOTA_EXCEEDED',
        `There are at most ${limits.toolPoliciesMax} policies; delete some first.`,
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
    const tool =
      input.toolId === undefined
        ? await deps.findTool(call, before.toolId)
        : await requireTool(call, input.toolId, kind)
    const toolId = input.toolId === undefined ? before.toolId : tool!.id
    if (kind === 'invocation') requireParameters(conditions, tool?.parameters)
    if (kind === 'invocation' && conditions.length === 0) {
      const other = await defaultOf(call, toolId)
      if (other !== undefined && other.id !== before.id) {
        throw new AppError(
          'ERR_ALREADY_EXISTS',
          'conditions: the tool has a default policy already; change that one, or give this one conditions.',
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

  /** What would be said of a call, or of a result, if it came now. Nothing is called and nothing changes. */
  async function explain(
    call: Pick<Call, 'principal' | 'read' | 'transport'>,
    input: Readonly<{ tool: string; arguments: unknown; untrusted?: boolean | undefined; result?: unknown }>,
  ) {
    const { principal, transport } = call
    const tool = await requireTool(call, input.tool)
    const isUntrusted = input.untrusted ?? (await deps.trust.isUntrusted(principal))
    const profile = principal.gateway ?? principal.agent
    const subject = { principal, origin: transport, isUntrusted, ...(profile !== undefined && { profile }) }
    const asked = await engine.judgeCall(subject, tool, input.arguments)
    const answered = input.result === undefined ? undefined : await engine.judgeResult(subject, tool, input.result)
    return {
      tool: tool.name,
      tool_id: tool.id,
      context: { id: deps.trust.contextOf(principal), untrusted: isUntrusted },
      governance: engine.governance,
      call: {
        action: asked.action,
        policy: asked.policy ?? null,
        decided_by: asked.specificity,
        reason: asked.reason,
        because_untrusted: asked.becauseUntrusted,
      },
      result:
        answered === undefined
          ? null
          : { action: answered.action, policy: answered.policy ?? null, reason: answered.reason },
    }
  }

  /** The stored policies without those that are left out, and with those that are given; or only those. */
  async function changedSet(call: Reading, { policies, remove = [], only = false }: Simulation): Promise<PolicySet> {
    const stored = only ? [] : await store.listPolicies(call.read, call.principal.tenant)
    for (const id of remove)
      if (!stored.some((one) => one.id === id)) throw policyNotFound('get_tool_invocation_policies')
    const added: StoredPolicy[] = []
    for (const [index, { toolId, conditions, action }] of policies.entries()) {
      requireUsable('invocation', conditions, action)
      const { id, parameters } = await requireTool(call, toolId)
      requireParameters(conditions, parameters)
      const times = { position: limits.toolPoliciesMax + index, createdAtMs: 0, updatedAtMs: 0 }
      const own = { tenant: call.principal.tenant, kind: 'invocation', note: null } as const
      added.push({ ...own, ...times, id: `given-${index + 1}`, toolId: id, conditions, action })
    }
    return compilePolicies([...stored.filter(({ id }) => !remove.includes(id)), ...added])
  }

  /** What would be said otherwise of calls that were made. Nothing is called and nothing changes. */
  async function simulate(
    call: Reading,
    input: Simulation & Readonly<{ from_seq?: number | undefined; limit: number }>,
  ) {
    const { tenant } = call.principal
    const [before, after] = [await engine.policiesOf(tenant), await changedSet(call, input)]
    const page = await deps.recordedCalls(call, input.from_seq, input.limit)
    const tools = new Map<string, PolicyTool>()
    const undecided = new Set<string>()
    const changes = []
    for (const one of page.calls) {
      if (!tools.has(one.tool))
        tools.set(one.tool, (await deps.findTool(call, one.tool)) ?? { name: one.tool, origin: 'unknown' })
      const tool = tools.get(one.tool)!
      const subject = recordedSubject(call.principal, one)
      const [was, is] = [before, after].map((set) => simulateCall(set, engine.governance, subject, tool))
      for (const id of is!.undecided) undecided.add(id)
      if (was!.actions.join() === is!.actions.join()) continue
      const { seq, call_id, at, code = null } = one
      changes.push({
        seq,
        call_id,
        at,
        tool: one.tool,
        actor: one.principal['actor'] ?? '',
        code,
        before: was!.actions,
        after: is!.actions,
      })
    }
    return {
      from_seq: page.fromSeq,
      next_seq: page.nextSeq,
      calls: page.calls.length,
      unchanged: page.calls.length - changes.length,
      changes: changes.slice(0, limits.simulatedChangesMax),
      changes_left_out: Math.max(0, changes.length - limits.simulatedChangesMax),
      undecided_policies: [...undecided],
      note: 'The log has digests of arguments: conditions on arguments, teams and external agents, and whether a context was untrusted, are counted both ways.',
    }
  }

  return {
    explain,
    simulate,
    operators: () => ({ operators: operators.map((value) => ({ value, label: operatorLabels[value] })) }),
    invocation: {
      list: async (call: Call) => ({ policies: (await list(call, 'invocation')).map(invocationView) }),
      get: async (call: Call, { id }: { id: string }) => ({
        policy: invocationView(await require(call, 'invocation', id)),
      }),
      create: async (call: Call, { reason, ...input }: WithReason<Fields<'invocation'>>) => ({
        policy: invocationView(await create(call, 'invocation', { ...input, note: reason })),
      }),
      update: async (call: Call, { reason, ...input }: WithReason<Changes<'invocation'>>) => ({
        policy: invocationView(await update(call, 'invocation', { ...input, note: reason })),
      }),
      remove: (call: Call, { id }: { id: string }) => remove(call, 'invocation', id),
    },
    trustedData: {
      list: async (call: Call) => ({ policies: (await list(call, 'trusted_data')).map(resultView) }),
      get: async (call: Call, { id }: { id: string }) => ({
        policy: resultView(await require(call, 'trusted_data', id)),
      }),
      create: async (call: Call, { description, ...input }: WithDescription<Fields<'trusted_data'>>) => ({
        policy: resultView(await create(call, 'trusted_data', { ...input, note: description })),
      }),
      update: async (call: Call, { description, ...input }: WithDescription<Changes<'trusted_data'>>) => ({
        policy: resultView(await update(call, 'trusted_data', { ...input, note: description })),
      }),
      remove: (call: Call, { id }: { id: string }) => remove(call, 'trusted_data', id),
    },
  }
}

type Simulation = Readonly<{
  policies: readonly Readonly<{ toolId: string; conditions: readonly Condition[]; action: InvocationAction }>[]
  remove?: readonly string[] | undefined
  only?: boolean | undefined
}>

/** The caller of a recorded call, as far as policies can ask and the log says. */
function recordedSubject(
  principal: Principal,
  { principal: who, transport }: RecordedCall,
): Omit<PolicySubject, 'isUntrusted'> {
  const { user, agent, gateway } = who
  const { tenant, permissions, role, tier } = principal
  return {
    principal: {
      ...{ tenant, permissions, role, tier, teams: [], kind: 'key', actor: who['actor'] ?? '' },
      ...(user !== undefined && { user }),
      ...(agent !== undefined && { agent }),
      ...(gateway !== undefined && { gateway }),
    },
    origin: transport as Transport,
  }
}

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
