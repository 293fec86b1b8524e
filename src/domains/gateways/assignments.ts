import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import type { Sharing } from '../../contract/sharing.ts'
import type {
  AssignedTool,
  AssignmentFailure,
  AssignmentOutcome,
  ToolAssignment,
} from '../../contract/tool-assignments.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { CatalogItem, McpServerStore, StoredTool } from '../mcp-servers/ports.ts'
import type { Profile } from '../profiles/ports.ts'
import { type AssignableStore, createAssignableTools, type KnownLists, newKnownLists } from './assignable-tools.ts'
import type { AssignmentStore, StoredAssignment } from './ports.ts'
import { deploymentNotFound, invalidAssignment, type Membership, misalignment, modeOf, toolNotFound } from './rules.ts'

export type AssignmentDeps = Readonly<{
  store: AssignmentStore
  servers: AssignableStore & Pick<McpServerStore, 'findItem' | 'findDeployment'>
  ownTools: OwnTools
  /** Of an identity; a former member is not one. */
  membershipOf(read: ReadTx, tenant: TenantId, identity: string): Promise<Membership>
  /** Why credentials cannot be exchanged for calls of this server; undefined if they can. */
  exchangeProblem(item: CatalogItem): string | undefined
  /** The listed tools change for callers. */
  noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
}>

/** The tools of this server. */
type OwnTools = Readonly<{
  /** By its documented name; undefined if there is none. */
  nameOf(toolId: string): string | undefined
  /** Descriptions of tools that the caller may not use are hidden. */
  describe(principal: Principal, names: readonly string[]): AssignedTool[]
}>

type Target = Pick<Profile, 'tenant' | 'id' | 'sharing'>
type Reading = Pick<Call, 'principal' | 'read'>
type Writing = Pick<Call, 'principal' | 'read' | 'write' | 'record' | 'nowMs'>
type Credentials = Pick<StoredAssignment, 'toolId' | 'mode' | 'deploymentId'> &
  Readonly<{ toolName?: string | undefined }>

export type ToolAssignments = ReturnType<typeof createToolAssignments>

/**
 * The tools of gateways and agents, and whose credentials their calls use.
 *
 * 1. A caller assigns what it sees: a tool that a deployment lists which it may see, with a deployment that it may see.
 * 2. A deployment is pinned only if its sharing fits that of the target, and a change of the sharing is checked again.
 * 3. An assignment that cannot work is not stored.
 */
export function createToolAssignments(deps: AssignmentDeps) {
  const { store, servers } = deps
  const { findTool, findAmong, findDeployment, expand, definitionFor, listOf, namedApart } =
    createAssignableTools(servers)

  async function membership({ principal, read }: Reading, tenant: TenantId, identity: string): Promise<Membership> {
    if (identity !== identityOf(principal)) return await deps.membershipOf(read, tenant, identity)
    return {
      isMember: true,
      isAdmin: isPermitted(principal, 'mcpServerInstallation:admin'),
      teams: principal.teams,
    }
  }

  async function problemOfDeployment(
    reading: Reading,
    { tenant, sharing }: Target,
    deployment: Sharing,
  ): Promise<string | undefined> {
    return misalignment(sharing, deployment, {
      author: await membership(reading, tenant, sharing.author),
      holder: await membership(reading, tenant, deployment.author),
    })
  }

  function ownCredentials(name: string, input: ToolAssignment): Credentials | AssignmentFailure {
    if ((input.mcpServerId ?? null) === null && modeOf(input) !== 'enterprise_managed') {
      return { toolId: name, mode: 'dynamic', deploymentId: null }
    }
    return invalidAssignment(
      'no_credentials',
      'mcpServerId: a tool of this server takes no credentials; pass only its toolId',
    )
  }

  async function credentialsFor(
    reading: Reading,
    target: Target,
    input: ToolAssignment,
    lists: KnownLists,
  ): Promise<Credentials | AssignmentFailure> {
    const own = deps.ownTools.nameOf(input.toolId)
    if (own !== undefined) return ownCredentials(own, input)
    const tool = await findTool(reading, input.toolId, lists)
    if (tool === undefined) return toolNotFound(input.toolId)
    const found = await credentialsOf(reading, target, input, tool, lists)
    return 'status' in found ? { ...found, toolName: tool.name } : found
  }

  async function credentialsOf(
    reading: Reading,
    target: Target,
    input: ToolAssignment,
    tool: StoredTool,
    lists: KnownLists,
  ): Promise<Credentials | AssignmentFailure> {
    const { principal, read } = reading
    const mode = modeOf(input)
    const { mcpServerId = null } = input
    if (mode === 'static') return await pinned(reading, target, tool, mcpServerId, lists)
    if (mcpServerId !== null) {
      return invalidAssignment(
        'not_static',
        `mcpServerId: only the mode static names a deployment; leave it out in the mode ${mode}`,
      )
    }
    const problem =
      mode === 'enterprise_managed'
        ? deps.exchangeProblem((await servers.findItem(read, principal.tenant, tool.catalogId))!)
        : undefined
    if (problem !== undefined) {
      return invalidAssignment('exchange_unavailable', `credentialResolutionMode: enterprise_managed: ${problem}`)
    }
    return { toolId: tool.id, toolName: tool.name, mode, deploymentId: null }
  }

  async function pinned(
    reading: Reading,
    target: Target,
    tool: StoredTool,
    deploymentId: string | null,
    lists: KnownLists,
  ): Promise<Credentials | AssignmentFailure> {
    if (deploymentId === null) {
      return invalidAssignment(
        'deployment_missing',
        'mcpServerId: the mode static needs the id of a deployment (list_mcp_server_deployments); or set resolveAtCallTime to use the credentials of each caller',
      )
    }
    const found = await findDeployment(reading, tool, deploymentId)
    if (found === undefined) return deploymentNotFound()
    if (found === 'several') {
      return invalidAssignment(
        'several_deployments',
        'mcpServerId: you see several deployments of this server; use the id of one (list_mcp_server_deployments)',
      )
    }
    if (found.catalogId !== tool.catalogId) {
      return invalidAssignment(
        'wrong_server',
        'mcpServerId: this is a deployment of a different server; use one of the server that the tool belongs to',
      )
    }
    if ((await listOf(reading, found, lists))?.has(tool.id) === false) {
      return invalidAssignment(
        'tool_not_listed',
        'mcpServerId: this deployment does not list the tool; use one that does, or set resolveAtCallTime',
      )
    }
    const problem = await problemOfDeployment(reading, target, found.sharing)
    if (problem === undefined) return { toolId: tool.id, toolName: tool.name, mode: 'static', deploymentId: found.id }
    return invalidAssignment(
      'scope_mismatch',
      `mcpServerId: this deployment cannot serve a target with the scope ${target.sharing.scope}: ${problem}. Use a deployment with a wider scope, or set resolveAtCallTime`,
    )
  }

  async function assignOne(
    call: Writing,
    target: Target,
    input: ToolAssignment,
    before: Map<string, StoredAssignment>,
    lists: KnownLists,
  ): Promise<AssignmentOutcome> {
    const found = await credentialsFor(call, target, input, lists)
    if ('status' in found) return found
    const { toolName, ...credentials } = found
    const known = before.get(credentials.toolId)
    if (known?.mode === credentials.mode && known.deploymentId === credentials.deploymentId)
      return { status: 'duplicate', toolName }
    if (known === undefined && before.size >= limits.toolAssignmentsMax) {
      const message = `A target has at most ${limits.toolAssignmentsMax} tools`
      return { ...invalidAssignment('too_many', message), toolName }
    }
    const { tenant } = target
    const assignment: StoredAssignment = {
      ...credentials,
      tenant,
      profileId: target.id,
      createdAtMs: known?.createdAtMs ?? call.nowMs,
      updatedAtMs: call.nowMs,
    }
    await store.putAssignment(call.write, tenant, assignment)
    before.set(credentials.toolId, assignment)
    const { toolId: tool_id, mode, deploymentId: mcp_server_id } = credentials
    const body = { profile_id: target.id, tool_id, mode, mcp_server_id, by: call.principal.actor }
    call.record({ kind: 'tool_assigned', body })
    return { status: 'succeeded', toolName }
  }

  const assignmentsOf = async (read: ReadTx, { tenant, id }: Pick<Target, 'tenant' | 'id'>) =>
    new Map((await store.listAssignments(read, tenant, id)).map((one) => [one.toolId, one]))

  /** One outcome for each, in the order of the inputs. */
  async function assign(
    call: Writing,
    requested: readonly Readonly<{ target: Target; input: ToolAssignment }>[],
  ): Promise<AssignmentOutcome[]> {
    const known = new Map<string, Map<string, StoredAssignment>>()
    const lists = newKnownLists()
    const outcomes: AssignmentOutcome[] = []
    for (const { target, input } of requested) {
      const before = known.get(target.id) ?? (await assignmentsOf(call.read, target))
      known.set(target.id, before)
      outcomes.push(await assignOne(call, target, input, before, lists))
    }
    if (outcomes.some(({ status }) => status === 'succeeded')) {
      await deps.noteChange(call.write, call.principal.tenant)
    }
    return outcomes
  }

  /** By id, or by name among what is assigned: its names are known to those who see the target. */
  function createAssignedLookup(reading: Reading, { tenant }: Target, assigned: readonly StoredAssignment[]) {
    const ids = new Set(assigned.map(({ toolId }) => toolId))
    let tools: StoredTool[] | undefined
    return async (reference: string): Promise<string> => {
      if (ids.has(reference)) return reference
      if (tools === undefined) {
        tools = []
        for (const id of ids) {
          const tool = await servers.findTool(reading.read, tenant, id)
          if (tool !== undefined) tools.push(tool)
        }
      }
      return (await findAmong(reading, tools, reference))?.id ?? reference
    }
  }

  /** Returns the ids of those that were assigned, and the others as they were given. */
  async function unassign(call: Writing, target: Target, toolIds: readonly string[]) {
    const assigned = await store.listAssignments(call.read, target.tenant, target.id)
    const assignedId = createAssignedLookup(call, target, assigned)
    const removed: string[] = []
    const notAssigned: string[] = []
    for (const toolId of new Set(toolIds)) {
      const id = deps.ownTools.nameOf(toolId) ?? (await assignedId(toolId))
      if (await store.deleteAssignment(call.write, target.tenant, target.id, id)) removed.push(id)
      else notAssigned.push(toolId)
    }
    const answer = { removed, notAssigned }
    if (removed.length === 0) return answer
    const body = { profile_id: target.id, tool_ids: removed, by: call.principal.actor }
    call.record({ kind: 'tools_unassigned', body })
    await deps.noteChange(call.write, target.tenant)
    return answer
  }

  /** Newly discovered tools with the credentials of their deployment: all of them, or none. */
  async function assignDeployed(
    call: Writing,
    {
      targets,
      toolIds,
      deploymentId,
    }: Readonly<{ targets: readonly Target[]; toolIds: readonly string[]; deploymentId: string }>,
  ): Promise<void> {
    const requested = targets.flatMap((target) =>
      toolIds.map((toolId) => ({ target, input: { toolId, mcpServerId: deploymentId } })),
    )
    const failed = (await assign(call, requested)).find((outcome) => outcome.status === 'failed')
    if (failed !== undefined) {
      throw new AppError('ERR_INVALID_INPUT', `agentIds: ${failed.message}`, { field: 'agentIds', type: failed.type })
    }
  }

  /** By name, each under one of its own; tools that are no longer offered are omitted. */
  async function assignedTo(reading: Reading, target: Pick<Target, 'tenant' | 'id'>) {
    const { principal, read } = reading
    const ours: AssignedTool[] = []
    const others: (AssignedTool & Pick<StoredTool, 'catalogId'>)[] = []
    const lists = newKnownLists()
    for (const { toolId, deploymentId } of await store.listAssignments(read, target.tenant, target.id)) {
      const own = deps.ownTools.nameOf(toolId)
      if (own !== undefined) ours.push(...deps.ownTools.describe(principal, [own]))
      const tool = own === undefined ? await servers.findTool(read, target.tenant, toolId) : undefined
      if (tool === undefined || tool.removedAtMs !== null) continue
      const definition = await definitionFor(reading, tool, deploymentId, lists)
      const { id, name, catalogId } = tool
      others.push({ id, name, description: definition?.description ?? null, catalogId })
    }
    return [...ours, ...(await namedApart(reading, others))].sort((one, other) => (one.name < other.name ? -1 : 1))
  }

  /** For a target whose sharing changes: its pinned deployments must fit the new sharing too. */
  async function requireAligned(call: Reading, target: Target): Promise<void> {
    for (const { toolId, deploymentId } of await store.listAssignments(call.read, target.tenant, target.id)) {
      const pin =
        deploymentId === null ? undefined : await servers.findDeployment(call.read, target.tenant, deploymentId)
      const problem = pin && (await problemOfDeployment(call, target, pin.sharing))
      if (problem === undefined) continue
      throw new AppError(
        'ERR_INVALID_INPUT',
        `scope: a tool is assigned with a deployment that cannot serve the scope ${target.sharing.scope}: ${problem}. Assign the tool with another deployment, or with resolveAtCallTime, first`,
        { field: 'scope', tool_id: toolId, deployment_id: deploymentId },
      )
    }
  }

  /** One of ours or of another server, by id or name, as the caller sees it. */
  async function resolve(
    reading: Reading,
    toolId: string,
  ): Promise<Readonly<{ id: string; name: string; inputSchema?: unknown }> | undefined> {
    const own = deps.ownTools.nameOf(toolId)
    if (own !== undefined) return { id: own, name: own }
    const lists = newKnownLists()
    const tool = await findTool(reading, toolId, lists)
    const definition = tool && (await definitionFor(reading, tool, null, lists))
    return tool && { id: tool.id, name: tool.name, inputSchema: definition?.inputSchema }
  }

  return { assign, assignDeployed, expand, resolve, unassign, assignedTo, requireAligned }
}
