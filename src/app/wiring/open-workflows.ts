import { AppError } from '../../contract/app-error.ts'
import type { Approvals } from '../../contract/approvals.ts'
import type { Database } from '../../contract/database.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { Trust } from '../../contract/trust.ts'
import { requireJudges } from '../../domains/agents/named-judges.ts'
import type { AgentSearch } from '../../domains/agents/search.ts'
import { childOf, withToolCallJudge } from '../../domains/executions/judges.ts'
import type { AgentDirectory, ExecutionInput } from '../../domains/executions/ports.ts'
import { needsWorkspace } from '../../domains/executions/workspace.ts'
import { userBehind } from '../../domains/identity/user-behind.ts'
import { createRegistry, type RegistryDeps } from '../../domains/workflows/registry.ts'
import type { RunDeps } from '../../domains/workflows/run-ports.ts'
import { createWorkflowService, type WorkflowService } from '../../domains/workflows/service.ts'
import type { WorkspaceBackend } from '../../domains/workspaces/backend.ts'
import type { Engine, Finalizer, Program } from '../../engine/ports.ts'
import { redacting } from '../../engine/redacting.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import { sqlApiKeyStore } from '../../stores/sql/api-key-store.ts'
import { sqlWorkflowStore } from '../../stores/sql/workflow-store.ts'
import type { AppDeps } from '../build-app.ts'
import { redactedValuesOf } from '../redacted-values.ts'
import { senderFor, valuesOf } from './open-executions.ts'

type Parts = Readonly<{
  engine: Engine
  database: Database
  agents: AgentDirectory
  search: AgentSearch
  invoker: ToolInvoker
  approvals: Approvals
  trust: Pick<Trust, 'hasReadUntrusted'>
  images: WorkspaceBackend['images']
  schedules: RegistryDeps['schedules']
}>

/** Workflows on the engine. Their code is loaded with the first run. */
export function openWorkflows({ config, clock, random }: AppDeps, parts: Parts): WorkflowService {
  const { engine, database, invoker, images } = parts
  const newId = (): string => uuidOf(random.bytes(16))
  const registry = createRegistry({ store: sqlWorkflowStore, newId, schedules: parts.schedules })
  const agents = agentsFor(parts, clock)
  const shelf = {
    names: async () => (await images()).map(({ name }) => name),
    substitutes: new Map(config.workflows.images.map(({ image, workspace_image }) => [image, workspace_image])),
  }
  const deps: RunDeps = {
    invoker,
    approvals: parts.approvals,
    registry,
    clock,
    read: database.read,
    newId,
    agents,
    http: senderFor(config),
    values: valuesOf(config),
    images: shelf,
    startRun: (principal, run) =>
      database.write(principal.tenant, async (write) => {
        if ((await engine.find(database.read, principal.tenant, run.id)) !== undefined) return
        await engine.start({ write, principal, nowMs: clock.nowMs() }, run)
      }),
    cancelRun: (tenant, principal, id) =>
      database.write(tenant, async (write) => {
        await engine.cancel({ write, principal, nowMs: clock.nowMs(), record() {} }, id)
      }),
  }
  let loaded: Promise<Readonly<{ program: Program; finalizer: Finalizer }>> | undefined
  const load = () => {
    loaded ??= import('../../domains/workflows/program.ts').then(({ createWorkflowProgram }) =>
      redacting(createWorkflowProgram(deps), redactedValuesOf(config)),
    )
    return loaded
  }
  engine.register(
    'workflow',
    async (run, steps) => (await load()).program(run, steps),
    async (run, steps, status) => (await load()).finalizer(run, steps, status),
  )
  return createWorkflowService({
    engine,
    registry,
    clock,
    agents,
    images: shelf,
    values: deps.values,
    search: parts.search,
    judgesAlways: config.workflows.judge_agents,
    trust: parts.trust,
    fourEyes: config.approvals.four_eyes,
    userBehind: (...args) => userBehind(sqlApiKeyStore, ...args),
  })
}

const noVirtualMachine = (agent: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `isolation: must be inherit for '${agent}', which has files or commands. This server runs no virtual machines, so firecracker is not available.`,
    { field: 'isolation' },
  )

/** Agents as workflows use them: each is a child execution of the run. */
const agentsFor = ({ agents, database }: Parts, clock: AppDeps['clock']) => ({
  prepare: (async (principal, request) => {
    const { agent, isOfPlatform, input, intent, workspaceId, isJudge, toolCallJudge, timeoutMs, isVirtualMachine } =
      request
    const { read } = database
    const found = await (isOfPlatform ? agents.resolvePlatform(read, agent) : agents.resolve(read, principal, agent))
    const worker = toolCallJudge ? withToolCallJudge(found, toolCallJudge) : found
    await requireJudges(worker.manifest, (judge) => agents.resolve(read, principal, judge))
    const start = childOf(worker, {
      role: isJudge ? 'judge' : 'worker',
      input,
      intent,
      workspaceId,
      untilMs: timeoutMs === null ? null : clock.nowMs() + timeoutMs,
    })
    if (isVirtualMachine && needsWorkspace(start.input as unknown as ExecutionInput)) throw noVirtualMachine(found.name)
    return start
  }) satisfies RunDeps['agents']['prepare'],
  async exists(principal: Parameters<RunDeps['agents']['prepare']>[0], agent: string): Promise<boolean> {
    try {
      await agents.resolve(database.read, principal, agent)
      return true
    } catch (error) {
      if (error instanceof AppError && error.code === 'ERR_AGENT_NOT_FOUND') return false
      throw error
    }
  },
})
