import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import { canModify } from '../../contract/sharing.ts'
import {
  type AssignedTool,
  type AssignmentFailure,
  type AssignmentOutcome,
  bulkAnswer,
  notAssigned,
  type ToolAssignment,
} from '../../contract/tool-assignments.ts'
import { nextVersion } from '../manifests/versions.ts'
import type { Profile, ProfileStore } from '../profiles/ports.ts'
import { invalid, missingName, modifyPermission, noSuch, profileView, requireNoKnowledge } from '../profiles/rules.ts'
import type { ProfileFields, ProfileService } from '../profiles/service.ts'
import type { AgentAccess, FoundAgent } from './agent-access.ts'
import type { Deployment } from './deployment.ts'
import type { AgentStore, AgentVersion, ToolAssigner } from './ports.ts'
import { agentNotFound, forPlatformOperators, type RecordDeps, warnOfModel } from './records.ts'
import { changedManifest, firstManifest } from './written-manifest.ts'

type AgentFields = ProfileFields &
  Readonly<{
    knowledgeBaseIds?: readonly string[] | undefined
    connectorIds?: readonly string[] | undefined
    subAgentIds?: readonly string[] | undefined
    toolAssignments?: readonly ToolAssignment[] | undefined
  }>

type AgentAssignment = ToolAssignment & Readonly<{ agentId: string }>
type ToolsForAgents = Readonly<{ assignments: readonly AgentAssignment[] }>

type AgentProfileDeps = Readonly<{
  store: AgentStore
  profiles: ProfileStore
  sharing: ProfileService
  tools: ToolAssigner
  access: AgentAccess
  deployment: Deployment
  modelProblem: RecordDeps['modelProblem']
  noteAccessChange: RecordDeps['noteAccessChange']
  versionOf(read: Call['read'], agent: FoundAgent['agent'], requested: undefined): Promise<AgentVersion>
}>

/** Agents as people create them: a name, a prompt, tools and sub-agents. Each is deployed like any other. */
export function createAgentProfiles(deps: AgentProfileDeps) {
  const { store, profiles, sharing, access, deployment } = deps

  /** Parsing a manifest takes milliseconds, so a long list yields before each. */
  async function manifestTools(yaml: string): Promise<readonly string[]> {
    await new Promise((resolve) => setImmediate(resolve))
    const { parseAgentManifest } = await import('./manifest.ts')
    return parseAgentManifest(yaml).manifest.tools
  }

  async function toolsOf(call: Call, { agent }: FoundAgent): Promise<AssignedTool[]> {
    const { manifestYaml } = await deps.versionOf(call.read, agent, undefined)
    const own = deps.tools.describe(call.principal, await manifestTools(manifestYaml))
    return [...own, ...(await deps.tools.assignedTo(call, agent))]
  }

  async function viewOf(call: Call, found: FoundAgent) {
    const { profile } = found
    return {
      ...profileView(profile),
      teams: await sharing.teamsOf(call.read, profile),
      tools: await toolsOf(call, found),
      subAgentIds: await visibleSubAgents(call, profile),
    }
  }

  async function visibleSubAgents(call: Call, { id }: Profile): Promise<string[]> {
    return (await subAgentsOf(call.read, call.principal, id)).map((agent) => agent.id)
  }

  async function subAgentsOf(read: Call['read'], principal: Principal, agentId: string) {
    const parent = await access.find(read, principal, agentId)
    if (parent === undefined) return []
    const ids = await profiles.subAgentsOf(read, parent.agent.tenant, parent.agent.id)
    const found = await Promise.all(ids.map((id) => access.find(read, principal, id)))
    return found.flatMap((one) =>
      one === undefined
        ? []
        : { id: one.agent.id, slug: one.agent.name, name: one.profile.name, description: one.profile.description },
    )
  }

  async function require(call: Call, idOrName: string, field: 'id' | 'name' = 'id'): Promise<FoundAgent> {
    const found = await access.find(call.read, call.principal, idOrName)
    if (found !== undefined) return found
    throw agentNotFound(idOrName, { field, hint: 'Use list_agents to find its id or name.' })
  }

  /** Sorts the assignments: names for the manifest, and the rest for the table with credentials. */
  function sorted(assignments: readonly ToolAssignment[] = []) {
    const own = assignments.filter(({ toolId }) => deps.tools.isOwn(toolId))
    const withCredentials = own.some(
      ({ mcpServerId, credentialResolutionMode, resolveAtCallTime }) =>
        (mcpServerId ?? undefined) !== undefined ||
        credentialResolutionMode !== undefined ||
        resolveAtCallTime === true,
    )
    if (withCredentials)
      throw invalid('toolAssignments', 'a tool of this server takes no credentials; pass only its toolId')
    return {
      names: own.map(({ toolId }) => toolId),
      others: assignments.filter(({ toolId }) => !deps.tools.isOwn(toolId)),
    }
  }

  async function addSubAgents(call: Call, { tenant, id }: Profile, requested: readonly string[] = []): Promise<void> {
    const ids: string[] = []
    for (const one of requested) {
      const found = await access.find(call.read, call.principal, one)
      if (found === undefined) throw noSuch('subAgentIds', 'agent; use list_agents to find its id')
      if (found.agent.id === id) throw invalid('subAgentIds', 'an agent cannot delegate to itself')
      ids.push(found.agent.id)
    }
    if (ids.length === 0) return
    const before = await profiles.subAgentsOf(call.read, tenant, id)
    if (new Set([...before, ...ids]).size > limits.subAgentsMax) {
      throw invalid('subAgentIds', `an agent can delegate to at most ${limits.subAgentsMax} others`)
    }
    await profiles.addSubAgents(call.write, tenant, id, ids, call.nowMs)
    call.record({ kind: 'sub_agents_added', body: { agent_id: id, sub_agent_ids: ids, by: call.principal.actor } })
  }

  async function createAgent(call: Call, input: AgentFields & Readonly<{ name: string }>) {
    requireNoKnowledge(input)
    const { names, others } = sorted(input.toolAssignments)
    const profile = await sharing.prepare(call, 'agent', input)
    const yaml = firstManifest(profile.slug, profile, names)
    const manifest = await deployment.checked(call, yaml)
    warnOfModel(deps, call, manifest.runtime.model)
    await deployment.insert(call, profile, { tenant: profile.tenant, manifest, yaml, versions: [] })
    await addSubAgents(call, profile, input.subAgentIds)
    await assignAll(call, profile, others)
    return await viewOf(call, await require(call, profile.id))
  }

  async function editAgent(call: Call, input: AgentFields & Readonly<{ id: string }>) {
    requireNoKnowledge(input)
    const found = await require(call, input.id)
    const { agent } = found
    if (agent.tenant !== call.principal.tenant) throw forPlatformOperators('id')
    const { names, others } = sorted(input.toolAssignments)
    if (names.length > 0) await call.assignsTools?.()
    const profile = await sharing.change(call, found.profile, input)
    await sharing.save(call, profile)
    await deployChange(call, { agent, profile }, input, names)
    await addSubAgents(call, profile, input.subAgentIds)
    await assignAll(call, profile, others)
    if (profile.sharing !== found.profile.sharing) await deps.tools.requireAligned(call, profile)
    await deps.noteAccessChange(call.write, profile.tenant)
    return await viewOf(call, await require(call, agent.id))
  }

  /** All of them, or none. */
  async function assignAll(call: Call, target: Profile, assignments: readonly ToolAssignment[]): Promise<void> {
    if (assignments.length > 0) await call.assignsTools?.()
    const outcomes = await deps.tools.assign(
      call,
      assignments.map((input) => ({ target, input })),
    )
    const failed = outcomes.find((outcome) => outcome.status === 'failed')
    if (failed === undefined) return
    const code = failed.code === 'not_found' ? 'ERR_NOT_FOUND' : 'ERR_INVALID_INPUT'
    throw new AppError(code, `toolAssignments: ${failed.message}`, { field: 'toolAssignments', type: failed.type })
  }

  async function targetOf(call: Call, idOrName: string): Promise<FoundAgent | AssignmentFailure> {
    const found = await access.find(call.read, call.principal, idOrName)
    if (found === undefined || found.agent.tenant !== call.principal.tenant) {
      return notAssigned(
        'not_found',
        'agent_not_found',
        'agentId: you have no such agent; use list_agents to find its id',
      )
    }
    if (canModify(call.principal, 'agent', found.profile.sharing)) return found
    const message = `agentId: changing this agent needs the permission '${modifyPermission(found.profile)}'`
    return notAssigned('validation_error', 'forbidden', message)
  }

  /** Tools of this server become part of the manifest, all new ones as one version. */
  async function assignOwn(call: Call, found: FoundAgent, requested: readonly ToolAssignment[]) {
    const { manifestYaml } = await deps.versionOf(call.read, found.agent, undefined)
    const listed = new Set(await manifestTools(manifestYaml))
    const added: string[] = []
    const outcomes = requested.map(({ toolId, mcpServerId, credentialResolutionMode }): AssignmentOutcome => {
      if ((mcpServerId ?? null) !== null || credentialResolutionMode === 'enterprise_managed') {
        const message = 'mcpServerId: a tool of this server takes no credentials; pass only its toolId'
        return notAssigned('validation_error', 'no_credentials', message)
      }
      if (listed.has(toolId)) return { status: 'duplicate' }
      listed.add(toolId)
      added.push(toolId)
      return { status: 'succeeded' }
    })
    await deployChange(call, found, {}, added)
    return outcomes
  }

  async function assignTools(call: Call, { assignments }: ToolsForAgents) {
    const outcomes = new Map<AgentAssignment, AssignmentOutcome>()
    for (const agentId of new Set(assignments.map((one) => one.agentId))) {
      const requested = assignments.filter((one) => one.agentId === agentId)
      const found = await targetOf(call, agentId)
      if ('status' in found) {
        for (const one of requested) outcomes.set(one, found)
        continue
      }
      const own = requested.filter(({ toolId }) => deps.tools.isOwn(toolId))
      const others = requested.filter(({ toolId }) => !deps.tools.isOwn(toolId))
      const target = found.profile
      const made = [
        ...(await assignOwn(call, found, own)),
        ...(await deps.tools.assign(
          call,
          others.map((input) => ({ target, input })),
        )),
      ]
      for (const [index, one] of [...own, ...others].entries()) outcomes.set(one, made[index]!)
    }
    return bulkAnswer(
      'agentId',
      assignments.map((one) => ({ targetId: one.agentId, toolId: one.toolId, outcome: outcomes.get(one)! })),
    )
  }

  /** The prompt and tools have versions: a change adds one; beyond the maximum it replaces the last. */
  async function deployChange(call: Call, found: FoundAgent, input: AgentFields, tools: readonly string[]) {
    const { agent, profile } = found
    const stored = await deps.versionOf(call.read, agent, undefined)
    const listed = await manifestTools(stored.manifestYaml)
    const addedTools = tools.filter((name) => !listed.includes(name))
    const changes = {
      ...(input.description !== undefined && { description: profile.description }),
      ...(input.labels !== undefined && { labels: profile.labels }),
      ...(input.systemPrompt !== undefined && { systemPrompt: profile.systemPrompt }),
      ...(addedTools.length > 0 && { tools: [...listed, ...new Set(addedTools)] }),
    }
    if (Object.keys(changes).length === 0) return
    const versions = await store.versionsOf(call.read, agent.tenant, agent.id)
    const next = nextVersion(agent.latestVersion)
    const isFull = versions.length >= limits.agentVersionsMax || versions.includes(next)
    const yaml = changedManifest(stored.manifestYaml, isFull ? agent.latestVersion : next, changes)
    const manifest = await deployment.checked(call, yaml)
    await deployment.addVersion(call, found, { tenant: agent.tenant, manifest, yaml, versions })
  }

  async function listAgents(call: Call, input: Readonly<{ name?: string | undefined; limit: number; offset: number }>) {
    const { profiles: page, total } = await sharing.list(call.read, call.principal, 'agent', input)
    const agents = []
    for (const profile of page) {
      const found = await access.find(call.read, call.principal, profile.id)
      if (found === undefined) continue
      agents.push({
        id: profile.id,
        name: profile.name,
        scope: profile.sharing.scope,
        description: profile.description,
        teams: await sharing.teamsOf(call.read, profile),
        labels: [...profile.labels],
        tools: (await toolsOf(call, found)).map(({ name, description }) => ({ name, description })),
        knowledgeSources: [],
      })
    }
    return { total, agents }
  }

  /** The calling agent, or the agent or gateway at whose address the call arrived; any other caller gets its own identity. */
  async function whoami(call: Call) {
    const { principal } = call
    const { tenant, role, tier, teams } = principal
    const current = principal.agent ?? principal.gateway
    const profile = current === undefined ? undefined : await currentProfile(call, current)
    const isGateway = principal.agent === undefined && profile !== undefined && profile.kind !== 'agent'
    const kind = isGateway ? 'gateway' : current === undefined ? principal.kind : 'agent'
    return {
      agentId: current ?? identityOf(principal),
      agentName: profile?.name ?? principal.actor,
      kind: kind as Principal['kind'] | 'gateway',
      identity: identityOf(principal),
      actor: principal.actor,
      organization: tenant as string,
      role,
      tier,
      teams: [...teams],
    }
  }

  const currentProfile = async ({ read, principal }: Call, id: string): Promise<Profile | undefined> =>
    (await access.find(read, principal, id))?.profile ?? (await profiles.findProfile(read, principal.tenant, id))

  return {
    createAgent,
    editAgent,
    assignTools,
    subAgentsOf,
    listAgents,
    whoami,
    async getAgent(call: Call, input: Readonly<{ id?: string | undefined; name?: string | undefined }>) {
      const reference = input.id ?? input.name
      if (reference === undefined) throw missingName()
      return await viewOf(call, await require(call, reference, input.id === undefined ? 'name' : 'id'))
    },
  }
}
