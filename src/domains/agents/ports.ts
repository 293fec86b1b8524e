import type { Call } from '../../contract/call.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { Viewer } from '../../contract/sharing.ts'
import type { ScheduleView, Timing } from '../../contract/timing.ts'
import type { AssignedTool, AssignmentOutcome, ToolAssignment } from '../../contract/tool-assignments.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Profile } from '../profiles/ports.ts'

export type AgentStatus = 'active' | 'paused' | 'archived' | 'failed'
/** `global` agents are kept in the tenant of the system and seen by all. */
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

/** The manifest as it was given, to the letter. */
export type AgentVersion = Readonly<{
  agentId: string
  version: string
  manifestYaml: string
  createdAtMs: number
  createdBy: string
}>

/** The tenant is the caller's, or that of the system for what is global. */
export type AgentStore = Readonly<{
  /** Holds back everybody else who wants to write what is global until the transaction ends. */
  lockShared(tx: WriteTx): Promise<void>
  insertAgent(tx: WriteTx, tenant: TenantId, agent: Agent): Promise<void>
  /** Writes all but id, name and creation. */
  saveAgent(tx: WriteTx, tenant: TenantId, agent: Agent): Promise<void>
  /** With its versions and events. Answers whether it was there. */
  deleteAgent(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findAgent(tx: ReadTx, tenant: TenantId, id: string): Promise<Agent | undefined>
  /** Names are unique among those that see them, so that there may be several. */
  findAgentsByName(tx: ReadTx, tenant: TenantId, name: string): Promise<Agent[]>
  /** What the viewer sees, by name. */
  listAgents(tx: ReadTx, tenant: TenantId, viewer: Viewer): Promise<Agent[]>
  countAgents(tx: ReadTx, tenant: TenantId): Promise<number>
  /** Replaces what the version had before. */
  putVersion(tx: WriteTx, tenant: TenantId, version: AgentVersion): Promise<void>
  findVersion(tx: ReadTx, tenant: TenantId, agentId: string, version: string): Promise<AgentVersion | undefined>
  versionsOf(tx: ReadTx, tenant: TenantId, agentId: string): Promise<string[]>
  insertEvent(tx: WriteTx, tenant: TenantId, event: AgentEvent): Promise<void>
  /** For an agent that goes to or comes from what is global; the caller holds `lockShared`. */
  moveEvents(tx: WriteTx, from: TenantId, to: TenantId, agentId: string): Promise<void>
}>

export type ActivityEvent = Readonly<{ eventType: string; payload: Json; recordedAtMs: number }>
export type ActivityPage = Readonly<{ limit: number; offset: number }>

/** What became of an agent itself. */
export type AgentEvent = Readonly<{
  agentId: string
  type: string
  payload: Readonly<Record<string, Json>>
  atMs: number
}>

/** An agent, and the tenant that it is kept in. */
export type AgentAddress = Readonly<{ id: string; tenant: TenantId }>

/**
 * What became of an agent and what its executions did, as far as the viewer may see them: the oldest first, where an execution
 * with all its events is ordered by its start.
 */
export type ActivityLog = Readonly<{
  activityOf(
    read: ReadTx,
    viewer: Principal,
    agent: AgentAddress,
    page: ActivityPage,
  ): Promise<Readonly<{ events: readonly ActivityEvent[]; total: number }>>
  /** How many executions of the agent the viewer may see. */
  countOf(read: ReadTx, viewer: Principal, agentId: string): Promise<number>
}>

/** The executions of `tenant`, or of one owner in it. */
export type ActivityWanted = Readonly<{ tenant: TenantId; agent: AgentAddress; owner: string | undefined }>
/** An execution, as far as it has a place in the activity. */
export type RunSpan = Readonly<{ runId: string; atMs: number; events: number }>
export type ActivitySpan = RunSpan | Readonly<{ event: AgentEvent; events: 1 }>

export type ActivityStore = Readonly<{
  /** Of the agent and of the executions. */
  countEvents(tx: ReadTx, wanted: ActivityWanted): Promise<number>
  /** In the order of their starts, or the other way round, beyond a place in it. */
  runsAfter(
    tx: ReadTx,
    wanted: ActivityWanted,
    page: Readonly<{ after: Pick<RunSpan, 'atMs' | 'runId'>; isBackward: boolean; limit: number }>,
  ): Promise<RunSpan[]>
  /** The oldest first. */
  eventsOf(tx: ReadTx, agent: AgentAddress): Promise<AgentEvent[]>
}>

/** A manifest that comes with the program; it is there in every tenant without being stored. */
export type AgentTemplate = Readonly<{ name: string; manifestYaml: string }>

/** Told in the transaction that changes an agent; what counts is the schedule of its latest version. */
export type ScheduleSetter = Readonly<{
  set(call: Call, agent: Pick<Agent, 'tenant' | 'id'>, timing: Timing | null): Promise<void>
  remove(call: Call, agent: Pick<Agent, 'tenant' | 'id'>): Promise<void>
  /** What is in force; null when nothing starts the agent by itself. */
  find(tx: ReadTx | WriteTx, agent: Pick<Agent, 'tenant' | 'id'>): Promise<ScheduleView | null>
}>

/** The tools that an agent can be given: those of this server by name, and those of other servers, with credentials. */
export type ToolAssigner = Readonly<{
  isOwn(toolId: string): boolean
  /** Of this server; the description of one that the caller may not use is not told. */
  describe(principal: Principal, names: readonly string[]): AssignedTool[]
  /** Of other servers: adds them, or changes their credentials. One outcome for each, in their order. */
  assign(
    call: Call,
    wanted: readonly Readonly<{ target: Pick<Profile, 'tenant' | 'id' | 'sharing'>; input: ToolAssignment }>[],
  ): Promise<AssignmentOutcome[]>
  assignedTo(
    call: Pick<Call, 'principal' | 'read'>,
    agent: Readonly<{ tenant: TenantId; id: string }>,
  ): Promise<AssignedTool[]>
  /** Refuses a sharing that does not fit the deployments that its tools are assigned with. */
  requireAligned(call: Call, profile: Pick<Profile, 'tenant' | 'id' | 'sharing'>): Promise<void>
}>

/** Which agents a caller wants to see. */
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
