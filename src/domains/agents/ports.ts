import type { Call } from '../../contract/call.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { Viewer } from '../../contract/sharing.ts'
import type { ScheduleView, Timing } from '../../contract/timing.ts'
import type { AssignedTool, AssignmentOutcome, ToolAssignment } from '../../contract/tool-assignments.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Profile } from '../profiles/ports.ts'

export type AgentStatus = 'active' | 'paused' | 'archived' | 'failed'
/** `global` agents are stored in the system tenant and visible to all. */
export type AgentScope = 'tenant' | 'global'

/** A name with its versions. `latestVersion`, `description` and `labels` are those of the highest version. */
export type Agent = Readonly<{
  tenant: TenantId
  id: string
  name: string
  status: AgentStatus
  latestVersion: string
  description: string
  labels: Readonly<Record<string, string>>
  createdAtMs: number
  createdBy: string
  updatedAtMs: number
}>

/** The manifest exactly as given. */
export type AgentVersion = Readonly<{
  agentId: string
  version: string
  manifestYaml: string
  createdAtMs: number
  createdBy: string
}>

/** The tenant is the caller's, or the system tenant for global agents. */
export type AgentStore = Readonly<{
  /** Blocks all other writers of global agents until the transaction ends. */
  lockShared(tx: WriteTx): Promise<void>
  insertAgent(tx: WriteTx, tenant: TenantId, agent: Agent): Promise<void>
  /** Writes all but id, name and creation. */
  saveAgent(tx: WriteTx, tenant: TenantId, agent: Agent): Promise<void>
  /** With its versions and events. Returns whether it existed. */
  deleteAgent(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findAgent(tx: ReadTx, tenant: TenantId, id: string): Promise<Agent | undefined>
  /** Names are unique only within their scope, so there may be several. */
  findAgentsByName(tx: ReadTx, tenant: TenantId, name: string): Promise<Agent[]>
  /** The agents that the viewer sees, by name. */
  listAgents(tx: ReadTx, tenant: TenantId, viewer: Viewer): Promise<Agent[]>
  countAgents(tx: ReadTx, tenant: TenantId): Promise<number>
  /** Replaces an existing version. */
  putVersion(tx: WriteTx, tenant: TenantId, version: AgentVersion): Promise<void>
  findVersion(tx: ReadTx, tenant: TenantId, agentId: string, version: string): Promise<AgentVersion | undefined>
  versionsOf(tx: ReadTx, tenant: TenantId, agentId: string): Promise<string[]>
  insertEvent(tx: WriteTx, tenant: TenantId, event: AgentEvent): Promise<void>
  /** For an agent that becomes global or stops being so; the caller holds `lockShared`. */
  moveEvents(tx: WriteTx, from: TenantId, to: TenantId, agentId: string): Promise<void>
}>

export type ActivityEvent = Readonly<{ eventType: string; payload: Json; recordedAtMs: number }>
export type ActivityPage = Readonly<{ limit: number; offset: number }>

/** An event of the agent itself. */
export type AgentEvent = Readonly<{
  agentId: string
  type: string
  payload: Readonly<Record<string, Json>>
  atMs: number
}>

/** An agent and its tenant. */
export type AgentAddress = Readonly<{ id: string; tenant: TenantId }>

/**
 * The events of an agent and of its executions, as far as the viewer may see them: the oldest first, where an execution with all
 * its events is ordered by its start.
 */
export type ActivityLog = Readonly<{
  activityOf(
    read: ReadTx,
    viewer: Principal,
    agent: AgentAddress,
    page: ActivityPage,
  ): Promise<
    Readonly<{
      events: readonly ActivityEvent[]
      total: number
      /** The root runs of the executions that the events belong to. */
      rootIds: readonly string[]
    }>
  >
  /** The number of the agent's executions that the viewer may see. */
  countOf(read: ReadTx, viewer: Principal, agentId: string): Promise<number>
}>

/** The executions of `tenant`, or of one owner in it. */
export type ActivityFilter = Readonly<{ tenant: TenantId; agent: AgentAddress; owner: string | undefined }>
/** An execution's position in the activity. */
export type RunSpan = Readonly<{ runId: string; atMs: number; events: number }>
export type ActivitySpan = RunSpan | Readonly<{ event: AgentEvent; events: 1 }>

export type ActivityStore = Readonly<{
  /** Events of the agent and of its executions. */
  countEvents(tx: ReadTx, filter: ActivityFilter): Promise<number>
  /** In the order of their starts, or reversed, after a position. */
  runsAfter(
    tx: ReadTx,
    filter: ActivityFilter,
    page: Readonly<{ after: Pick<RunSpan, 'atMs' | 'runId'>; isBackward: boolean; limit: number }>,
  ): Promise<RunSpan[]>
  /** Oldest first. */
  eventsOf(tx: ReadTx, agent: AgentAddress): Promise<AgentEvent[]>
}>

/** A shipped manifest; it exists in every tenant without being stored. */
export type AgentTemplate = Readonly<{ name: string; manifestYaml: string }>

/** Called in the transaction that changes an agent; the schedule of its latest version counts. */
export type ScheduleSetter = Readonly<{
  set(call: Call, agent: Pick<Agent, 'tenant' | 'id'>, timing: Timing | null): Promise<void>
  remove(call: Call, agent: Pick<Agent, 'tenant' | 'id'>): Promise<void>
  /** The schedule in force; null if nothing starts the agent automatically. */
  find(tx: ReadTx | WriteTx, agent: Pick<Agent, 'tenant' | 'id'>): Promise<ScheduleView | null>
}>

/** The tools that an agent can have: those of this server by name, and those of other servers, with credentials. */
export type ToolAssigner = Readonly<{
  isOwn(toolId: string): boolean
  /** Tools of this server; descriptions of tools that the caller may not use are hidden. */
  describe(principal: Principal, names: readonly string[]): AssignedTool[]
  /** Tools of other servers: adds them, or changes their credentials. One outcome for each, in order. */
  assign(
    call: Call,
    requested: readonly Readonly<{ target: Pick<Profile, 'tenant' | 'id' | 'sharing'>; input: ToolAssignment }>[],
  ): Promise<AssignmentOutcome[]>
  assignedTo(
    call: Pick<Call, 'principal' | 'read'>,
    agent: Readonly<{ tenant: TenantId; id: string }>,
  ): Promise<AssignedTool[]>
  /** Refuses a sharing that does not fit the deployments of its assigned tools. */
  requireAligned(call: Call, profile: Pick<Profile, 'tenant' | 'id' | 'sharing'>): Promise<void>
}>

/** A caller's filter for agents. */
export type AgentListInput = Readonly<{
  labels?: Readonly<Record<string, string>> | undefined
  status?: AgentStatus | undefined
  limit: number
  offset: number
  include_platform_templates: boolean
  details: boolean
}>

export type AgentDeployInput = Readonly<{
  manifest_yaml: string
  force: boolean
  scope?: AgentScope | undefined
  agent_id?: string | undefined
}>
