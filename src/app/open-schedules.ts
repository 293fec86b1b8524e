import { AppError } from '../contract/app-error.ts'
import type { Database } from '../contract/database.ts'
import { limits } from '../contract/limits.ts'
import type { ToolDesk } from '../contract/tool-desk.ts'
import type { ReadUnit } from '../contract/unit.ts'
import type { AgentRegistry } from '../domains/agents/registry.ts'
import { type ExecutionService, runOwnerOf } from '../domains/executions/service.ts'
import { createScheduleDesk, type ScheduleDesk } from '../domains/schedules/schedule-desk.ts'
import { createScheduler, type Scheduler } from '../domains/schedules/scheduler.ts'
import type { Engine } from '../engine/ports.ts'
import { sqlScheduleStore } from '../stores/sql/schedule-store.ts'
import type { AppDeps } from './build-app.ts'
import type { Starters } from './open-starters.ts'
import type { OpenedWorkspaces } from './open-workspaces.ts'

type Executing = Readonly<{ agents: AgentRegistry; executions: ExecutionService }>

export type OpenedSchedules = Readonly<{
  desk: ScheduleDesk
  scheduler: Scheduler
  /** Agents tell of their schedules, and schedules execute agents: the second half is handed in once it is there. */
  connect(executing: Executing): void
}>

export function openSchedules(
  { clock, logger }: AppDeps,
  parts: Readonly<{
    database: Database
    engine: Engine
    ground: OpenedWorkspaces['ground']
    tools: ToolDesk
    starters: Starters
  }>,
): OpenedSchedules {
  const { database, engine, ground, tools } = parts
  let connected: Executing | undefined
  const mayExecute = (principal: Parameters<ToolDesk['describe']>[0]): boolean =>
    tools.describe(principal, ['aegis.task.execute']).length > 0
  const scheduler = createScheduler({
    store: sqlScheduleStore,
    database,
    engine,
    clock,
    logger,
    isReadOnly: ground.isReadOnly,
    isGone: parts.starters.isGone,
    mayExecute,
    async start(call, { agentId, owner, timing }, reason) {
      const { agents, executions } = connected!
      const agent = await agents.resolve(call.write as unknown as ReadUnit, call.principal, agentId)
      if (agent.status !== 'active') return undefined
      const request = { agent_id: agentId, ...inputOf(timing.input) }
      const refused = tools.check(call.principal, 'aegis.task.execute', request)
      if (refused !== undefined) throw new AppError(refused.code, refused.message)
      return await executions.begin(call, agent, request, { owner, payload: reason })
    },
    lookMs: limits.runLookMs,
  })
  return {
    scheduler,
    desk: createScheduleDesk({
      store: sqlScheduleStore,
      ownerOf: (unit, principal) => runOwnerOf(engine, unit as unknown as ReadUnit, principal),
      mayExecute,
      changed: scheduler.lookSoon,
    }),
    connect(executing) {
      connected = executing
    },
  }
}

/** A text is what the agent is asked, as when somebody executes it by hand. */
function inputOf(input: unknown): Readonly<{ intent?: string; input?: Readonly<Record<string, unknown>> }> {
  if (typeof input === 'string') return { intent: input }
  return typeof input === 'object' && input !== null ? { input: input as Readonly<Record<string, unknown>> } : {}
}
