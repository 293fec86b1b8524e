import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { AgentService } from '../../domains/agents/service.ts'
import { type ExecutionService, runOwnerOf } from '../../domains/executions/service.ts'
import type { Schedule, SubjectKind } from '../../domains/schedules/ports.ts'
import { createScheduler, type Scheduler, type SchedulerDeps } from '../../domains/schedules/scheduler.ts'
import { createScheduleService, type ScheduleService } from '../../domains/schedules/service.ts'
import { scheduledRequest } from '../../domains/workflows/scheduled-request.ts'
import type { WorkflowService } from '../../domains/workflows/service.ts'
import type { Engine } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { sqlScheduleStore } from '../../stores/sql/schedule-store.ts'
import type { AppDeps } from '../build-app.ts'
import type { OpenedWorkspaces } from './open-workspaces.ts'

type Started = Readonly<{ agents: AgentService; executions: ExecutionService; workflows: WorkflowService }>
type StartingCall = Parameters<SchedulerDeps['start']>[0]

type OpenedSchedules = Readonly<{
  registries: Readonly<Record<SubjectKind, ScheduleService>>
  scheduler: Scheduler
  /** Agents and workflows register their schedules, and schedules start them: the starting half is connected later. */
  connect(started: Started): void
}>

/** The tool that starts each kind manually: a schedule needs the same permission and arguments. */
const startedWith = {
  agent: { tool: 'aegis.task.execute', field: 'spec.schedule', permission: 'agent:execute' },
  workflow: { tool: 'aegis.workflow.run', field: 'spec.default_schedule', permission: 'workflow:run' },
} as const

export function openSchedules(
  { clock, config, logger }: AppDeps,
  parts: Readonly<{
    database: Database
    engine: Engine
    backendDeps: OpenedWorkspaces['backendDeps']
    tools: ToolInvoker
  }>,
): OpenedSchedules {
  const { database, engine, backendDeps, tools } = parts
  let connected: Started | undefined
  const mayStart = (principal: Principal, kind: SubjectKind): boolean =>
    tools.describe(principal, [startedWith[kind].tool]).length > 0
  const scheduler = createScheduler({
    store: sqlScheduleStore,
    database,
    engine,
    clock,
    logger,
    isReadOnly: backendDeps.isReadOnly,
    owners: backendDeps.owners,
    mayStart: ({ principal, kind }) => mayStart(principal, kind),
    start: (call, schedule, reason) =>
      (schedule.kind === 'agent' ? startAgent : startWorkflow)({ ...connected!, tools }, call, schedule, reason),
    reconcileMs: limits.runReconcileMs,
  })
  const invoker = (kind: SubjectKind): ScheduleService =>
    createScheduleService({
      store: sqlScheduleStore,
      kind,
      ...startedWith[kind],
      ownerOf: (tx, principal) => runOwnerOf(engine, tx as unknown as ReadTx, principal),
      mayStart: (principal) => mayStart(principal, kind),
      floorMs: config.executions.schedule_floor_secs * 1_000,
      changed: scheduler.scheduleReconcile,
    })
  return {
    scheduler,
    registries: { agent: invoker('agent'), workflow: invoker('workflow') },
    connect(started) {
      connected = started
    },
  }
}

type Reason = Readonly<Record<string, Json>>
type Reach = Started & Readonly<{ tools: ToolInvoker }>

async function startAgent(
  { agents, executions, tools }: Reach,
  call: StartingCall,
  { subjectId, owner, timing: { input } }: Schedule,
  payload: Reason,
) {
  const agent = await agents.resolve(call.write as unknown as ReadTx, call.principal, subjectId)
  if (agent.status !== 'active') return undefined
  const request = {
    agent_id: subjectId,
    // A string is the intent, as in a manual execution.
    ...(typeof input === 'string' && { intent: input }),
    ...(typeof input === 'object' && input !== null && { input: input as Readonly<Record<string, unknown>> }),
  }
  await requireAllowed(tools, call, 'agent', request)
  return await executions.begin(call, agent, request, { owner, payload })
}

async function startWorkflow(
  { workflows, tools }: Reach,
  call: StartingCall,
  { subjectId, owner, timing }: Schedule,
  payload: Reason,
) {
  const request = scheduledRequest(timing.input)
  const { intent, input } = request
  await requireAllowed(tools, call, 'workflow', { name: subjectId, ...(intent !== null && { intent }), input })
  return await workflows.executions.begin(call, subjectId, request, { owner, payload })
}

async function requireAllowed(
  tools: ToolInvoker,
  { principal }: StartingCall,
  kind: SubjectKind,
  request: object,
): Promise<void> {
  const refused = await tools.check(principal, startedWith[kind].tool, request)
  if (refused !== undefined) throw new AppError(refused.code, refused.message)
}
