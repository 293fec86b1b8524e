import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

const teamStates = ['creating', 'ready', 'destroying'] as const
export type TeamState = (typeof teamStates)[number]

/**
 * `operation` names the server process that is creating or destroying the team; it is set before anything happens and cleared
 * with the outcome, so that a crash leaves a trace. `node` is the machine of its workspaces. `lastSeq` counts all messages ever
 * sent in it.
 */
export type Team = Readonly<{
  tenant: TenantId
  name: string
  owner: string
  state: TeamState
  maxVms: number
  parent: string | null
  /** The number of parent teams. */
  depth: number
  node: string
  operation: string | null
  lastSeq: number
  createdAtMs: number
  createdBy: string
}>

export type TeamMember = Readonly<{
  name: string
  role: string
  skills: readonly string[]
  description: string
  /** Null until the workspace has been created. */
  workspaceId: string | null
}>

export type TeamMessage = Readonly<{
  seq: number
  id: string
  sender: string
  /** As the sender wrote it: a name, or `*`. */
  addressedTo: string
  content: string
  type: string
  atMs: number
}>

/** A command for an agent, from the message that assigned it. */
export type TaskAssignment = Readonly<{
  task_id: string
  command: string
  workdir: string | null
  env: Readonly<Record<string, string>>
  timeout_secs: number
}>

/** Its result, as `receive` shows it. */
export type TaskResult = Readonly<{
  task_id: string
  success: boolean
  exit_code: number
  stdout: string
  stderr: string
  elapsed_secs: number
  source_message_id: string
}>

/** One task of one agent, identified by its message: a message is run only once. */
export type TaskKey = Readonly<{ tenant: TenantId; team: string; agent: string; messageId: string }>
/** `jobId` is null until the job is known to have started. */
export type OpenTask = TaskKey &
  Readonly<{ state: 'queued' | 'running'; jobId: number | null; workspaceId: string | null }>
export type TaskCounts = Readonly<{ queued: number; running: number; done: number }>
export type FinishedTask = Readonly<{ seq: number; messageId: string; result: TaskResult }>

/**
 * Every method answers for one tenant only, except those that name a node: they count and recover what runs on a machine over all
 * tenants. Their results are never shown to callers.
 */
export type TeamStore = Readonly<{
  insertTeam(tx: WriteTx, tenant: TenantId, team: Team, members: readonly TeamMember[]): Promise<void>
  /** Writes owner, state, operation and lastSeq. */
  saveTeam(tx: WriteTx, tenant: TenantId, team: Team): Promise<void>
  /** Returns false if there is no such member any more. */
  setWorkspace(
    tx: WriteTx,
    tenant: TenantId,
    at: Readonly<{ team: string; member: string; workspaceId: string }>,
  ): Promise<boolean>
  /** With members, messages and tasks. */
  deleteTeam(tx: WriteTx, tenant: TenantId, name: string): Promise<void>
  findTeam(tx: ReadTx, tenant: TenantId, name: string): Promise<Team | undefined>
  /** Oldest first. */
  listTeams(tx: ReadTx, tenant: TenantId): Promise<Team[]>
  /** In the order in which they were given. */
  listMembers(tx: ReadTx, tenant: TenantId, team: string): Promise<TeamMember[]>
  /** How many members each team has. */
  memberCounts(tx: ReadTx, tenant: TenantId): Promise<ReadonlyMap<string, number>>
  countMembersOnNode(tx: ReadTx, node: string): Promise<number>
  /** Teams that are being created or destroyed, or were when a server ended. */
  unsettledOnNode(tx: ReadTx, node: string): Promise<Team[]>

  addMessage(
    tx: WriteTx,
    tenant: TenantId,
    at: Readonly<{ team: string; recipient: string }>,
    message: TeamMessage,
  ): Promise<void>
  countMessages(tx: ReadTx, tenant: TenantId, team: string, recipient: string): Promise<number>
  /** In the order in which they were sent, those after `afterSeq`. */
  listMessages(
    tx: ReadTx,
    tenant: TenantId,
    at: Readonly<{ team: string; recipient: string; afterSeq: number; limit: number }>,
  ): Promise<TeamMessage[]>
  deleteMessages(
    tx: WriteTx,
    tenant: TenantId,
    at: Readonly<{ team: string; recipient: string; untilSeq: number }>,
  ): Promise<void>

  addTask(
    tx: WriteTx,
    key: TaskKey,
    task: Readonly<{ seq: number; assignment: TaskAssignment; atMs: number }>,
  ): Promise<void>
  /** By agent; one without tasks is not in it. */
  taskCounts(tx: ReadTx, tenant: TenantId, team: string): Promise<ReadonlyMap<string, TaskCounts>>
  findAssignment(tx: ReadTx, key: TaskKey): Promise<TaskAssignment | undefined>
  /** From queued to running. False if it is no longer queued: another process has started it, or its team was removed. */
  beginTask(tx: WriteTx, key: TaskKey): Promise<boolean>
  /** Queued again: only its record had started, and no job. */
  putTaskBack(tx: WriteTx, key: TaskKey): Promise<void>
  /** False if it is no longer running. */
  noteJob(tx: WriteTx, key: TaskKey, jobId: number): Promise<boolean>
  /** From queued or running to done. False if it is neither: another process has recorded a result, or it was removed. */
  finishTask(tx: WriteTx, key: TaskKey, result: TaskResult): Promise<boolean>
  /** In the order in which they were assigned, those after `afterSeq`. */
  listFinished(
    tx: ReadTx,
    tenant: TenantId,
    at: Readonly<{ team: string; agent: string; afterSeq: number; limit: number }>,
  ): Promise<FinishedTask[]>
  deleteTask(tx: WriteTx, key: TaskKey): Promise<void>
  /** Queued and running tasks of teams that are ready, oldest first. */
  openTasksOnNode(tx: ReadTx, node: string): Promise<OpenTask[]>
}>
