import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import { limits } from '../../contract/limits.ts'
import { administers } from '../../contract/permissions.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { type Engine, isEnded, type Run, type RunEvent, type StartingCall } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { requireJudges } from '../agents/named-judges.ts'
import { nextSpawnDepth } from '../runs/spawn-depth.ts'
import { createForks, type ForkDeps } from './forks.ts'
import type {
  AgentDirectory,
  ExecutionInput,
  ExecutionOutput,
  ResolvedAgent,
  SnapshotService,
  WorkspaceAccess,
} from './ports.ts'
import { requireNoReserved, shortened } from './prompt.ts'
import { createRunFiles } from './run-files.ts'
import { fittingInput } from './schema.ts'

type ExecuteRequest = Readonly<{
  agent_id: string
  intent?: string | undefined
  input?: Readonly<Record<string, unknown>> | undefined
  version?: string | undefined
  context_overrides?: Readonly<Record<string, unknown>> | undefined
  workspace?: string | undefined
}>

type ExecutionServiceDeps = Readonly<{
  engine: Engine
  agents: AgentDirectory
  clock: Clock
  workspaces: WorkspaceAccess
  snapshots: SnapshotService
  models: ForkDeps['models']
  replay: ForkDeps['replay']
}>
export type ExecutionService = ReturnType<typeof createExecutionService>
type ById = Readonly<{ execution_id: string }>

/** An agent's executions belong to the owner of its own execution. */
export async function runOwnerOf(engine: Pick<Engine, 'find'>, tx: ReadTx, principal: Principal): Promise<string> {
  if (principal.executionId === undefined) return identityOf(principal)
  const run = await engine.find(tx, principal.tenant, principal.executionId)
  return run?.owner ?? identityOf(principal)
}

/** The owner whose runs the viewer sees; undefined for all owners of the tenant. */
export const ownerSeenBy = async (
  engine: Pick<Engine, 'find'>,
  tx: ReadTx,
  viewer: Principal,
): Promise<string | undefined> => (administers(viewer, 'execution') ? undefined : await runOwnerOf(engine, tx, viewer))

/** Executions of agents as callers see them. Those of other owners do not exist for them. */
export function createExecutionService(deps: ExecutionServiceDeps) {
  const { engine, agents, clock, workspaces, snapshots } = deps
  const ownerOf = (tx: ReadTx, principal: Principal): Promise<string> => runOwnerOf(engine, tx, principal)

  async function visible(call: Pick<Call, 'principal' | 'readsFrom'>, tx: ReadTx, id: string): Promise<Run> {
    const run = await engine.find(tx, call.principal.tenant, id)
    const isTheirs =
      run !== undefined &&
      (administers(call.principal, 'execution') || run.owner === (await ownerOf(tx, call.principal)))
    if (!isTheirs || run.kind !== 'execution') throw executionNotFound(id)
    call.readsFrom?.(`execution:${run.rootId}`)
    return run
  }

  /** A caller that is bound to one workspace cannot start an execution in another. */
  async function usable(call: StartingCall, tx: ReadTx, reference: string): Promise<Readonly<{ id: string }>> {
    const found = await workspaces.requireUsable(call, tx, reference)
    const { workspaceId } = call.principal
    if (workspaceId === undefined || workspaceId === found.id) return found
    throw new AppError(
      'ERR_PERMISSION_DENIED',
      'workspace: an agent may only name the workspace that it works in; leave it out for a new one',
      { field: 'workspace' },
    )
  }

  /** `origin` is for starting an execution on behalf of another identity: its owner, and the reason. */
  async function begin(
    call: StartingCall & Partial<Pick<Call, 'record'>>,
    agent: ResolvedAgent,
    request: ExecuteRequest,
    origin: Readonly<{ owner?: string; payload?: Readonly<Record<string, Json>>; delegation?: readonly string[] }> = {},
  ): Promise<Run> {
    const contextOverrides = (request.context_overrides ?? {}) as Readonly<Record<string, Json>>
    requireNoReserved(contextOverrides)
    const input = await fittingInput(agent.manifest, (request.input ?? agent.manifest.task.inputData) as Json)
    const { id, name, version, manifest } = agent
    const tx = call.write as unknown as ReadTx
    const supplied = request.workspace === undefined ? undefined : await usable(call, tx, request.workspace)
    const spawnDepth = await nextSpawnDepth(engine, tx, call.principal)
    const executionInput: ExecutionInput = {
      agent: { id, name, version },
      manifest,
      intent: request.intent?.trim() ? request.intent : null,
      input,
      contextOverrides,
      role: 'worker',
      workspaceId: supplied?.id ?? null,
      ...(supplied !== undefined && { preparesWorkspace: true as const }),
      keepWorkspace: false,
      untilMs: null,
      ...(spawnDepth > 0 && { generation: spawnDepth }),
      ...(origin.delegation !== undefined && { delegation: origin.delegation }),
    }
    const owner = origin.owner ?? (await ownerOf(tx, call.principal))
    const run = await engine.start(call, {
      kind: 'execution',
      subjectId: id,
      subjectName: name,
      subjectVersion: version,
      owner,
      input: executionInput as unknown as Json,
      payload: {
        agent_id: id,
        agent: name,
        version,
        intent: executionInput.intent,
        by: call.principal.actor,
        ...origin.payload,
      },
    })
    call.record?.({ kind: 'execution_started', body: { run_id: run.id, agent_id: id, version, owner } })
    return run
  }

  async function execute(call: Call, request: ExecuteRequest) {
    const tx = call.write as unknown as ReadTx
    const agent = await agents.resolve(tx, call.principal, request.agent_id, request.version)
    await requireJudges(agent.manifest, (judge) => agents.resolve(tx, call.principal, judge))
    const run = await begin(call, agent, request)
    return { execution_id: run.id, status: 'started' as const }
  }

  /**
   * A task that is delegated at the address of an agent: a child execution in the chain, which ends with the call. Returns its
   * final text.
   */
  async function delegate(
    call: Pick<Call, 'principal' | 'nowMs' | 'signal' | 'transact' | 'record' | 'progress' | 'readsFrom'>,
    { agent_id, parent_id, message }: Readonly<{ agent_id: string; parent_id: string; message: string }>,
  ): Promise<string> {
    const { principal, nowMs } = call
    const run = await call.transact(async (write) => {
      const tx = write as unknown as ReadTx
      const agent = await agents.resolve(tx, principal, agent_id)
      await requireJudges(agent.manifest, (judge) => agents.resolve(tx, principal, judge))
      const request = { agent_id, intent: message }
      return await begin({ write, principal, nowMs }, agent, request, { delegation: [parent_id] })
    })
    call.record({ kind: 'execution_started', body: { run_id: run.id, agent_id: run.subjectId, owner: run.owner } })
    call.readsFrom?.(`execution:${run.rootId}`)
    const ended = await untilEnded(call, run)
    if (ended?.status === 'completed') return (ended.output as unknown as ExecutionOutput).text
    const { code = 'ERR_INTERNAL', message: reason = '' } = ended?.error ?? {}
    throw new AppError(code as ErrorCode, `The agent ${ended?.status ?? 'is gone'}: ${reason}`, {
      execution_id: run.id,
    })
  }

  async function untilEnded(
    call: Pick<Call, 'principal' | 'nowMs' | 'signal' | 'transact' | 'record' | 'progress'>,
    { tenant, id }: Run,
  ): Promise<Run | undefined> {
    const { principal, nowMs, record } = call
    let progress = 0
    try {
      for (;;) {
        const run = await engine.waitForEnd(tenant, id, {
          untilMs: clock.nowMs() + limits.runWaitMsMax,
          signal: call.signal,
          onProgress({ iteration, status: state }) {
            call.progress({ progress: ++progress, message: `${state}, iteration ${iteration}` })
          },
        })
        call.signal.throwIfAborted()
        if (run === undefined || isEnded(run)) return run
      }
    } catch (error) {
      if (!call.signal.aborted) throw error
      await call.transact((write) => engine.cancel({ write, principal, nowMs, record }, id))
      throw new AppError('ERR_CANCELLED', 'The call was cancelled, and the agent with it.')
    }
  }

  async function status(call: Call, { execution_id }: ById) {
    const run = await visible(call, call.read, execution_id)
    return { ...(await stateOf(call.read, run)), agent_id: run.subjectId, status: run.status }
  }

  async function list(call: Call, { agent_id, limit }: Readonly<{ agent_id?: string | undefined; limit: number }>) {
    const { tenant } = call.principal
    const subjectId =
      agent_id === undefined
        ? undefined
        : await agents.resolve(call.read, call.principal, agent_id).then(
            ({ id }) => id,
            () => agent_id,
          )
    const owner = await ownerSeenBy(engine, call.read, call.principal)
    const runs = await engine.list(call.read, tenant, { kind: 'execution', subjectId, owner, limit })
    return {
      executions: runs.map((run) => ({
        id: run.id,
        agent_id: run.subjectId,
        status: run.status,
        started_at: isoTime(run.startedAtMs),
      })),
    }
  }

  async function cancel(call: Call, { execution_id }: ById) {
    const run = await visible(call, call.write as unknown as ReadTx, execution_id)
    if (await engine.cancel(call, run.id)) return { execution_id: run.id, cancelled: true }
    throw wrongState(run, 'it has already ended; aegis.task.status shows how')
  }

  async function remove(call: Call, { execution_id }: ById) {
    const run = await visible(call, call.write as unknown as ReadTx, execution_id)
    if (await engine.remove(call, run.id)) {
      await snapshots.discardArchive(call.write, run.tenant, `execution-${run.id}`)
      return { execution_id: run.id, removed: true }
    }
    throw wrongState(run, 'it has not ended; use aegis.task.cancel first')
  }

  async function logs(call: Call, input: ById & Readonly<{ limit: number; offset: number }>) {
    const run = await visible(call, call.read, input.execution_id)
    const { limit, offset } = input
    const page = await engine.events(call.read, run, { limit, offset })
    return {
      tool: 'aegis.task.logs' as const,
      execution_id: run.id,
      status: run.status,
      events: page.events.map(toLogRow),
      total: page.total,
      limit,
      offset,
    }
  }

  /** Waits no longer than clients wait for an answer; the answer then says to call again. */
  async function wait(call: Call, input: ById & Readonly<{ poll_interval_seconds: number; timeout_seconds: number }>) {
    const { id, tenant } = await visible(call, call.read, input.execution_id)
    const waitMs = Math.min(input.timeout_seconds * 1000, limits.runWaitMsMax)
    const everyMs = input.poll_interval_seconds * 1000
    let lastToldMs = Number.NEGATIVE_INFINITY
    let progress = 0
    const run = await engine.waitForEnd(tenant, id, {
      untilMs: clock.nowMs() + waitMs,
      signal: call.signal,
      everyMs,
      onProgress({ iteration, status: state, lastSequence }) {
        if (clock.monotonicMs() - lastToldMs < everyMs / 10) return
        lastToldMs = clock.monotonicMs()
        // The protocol requires growing numbers, even if nothing has changed.
        progress = Math.max(lastSequence, progress + 1)
        call.progress({ progress, message: `${state}, iteration ${iteration}` })
      },
    })
    if (run === undefined) throw executionNotFound(id)
    const state = await stateOf(call.read, run)
    if (isEnded(run)) return { ...state, status: run.status }
    const isOver = input.timeout_seconds * 1000 <= limits.runWaitMsMax
    return {
      ...state,
      status: isOver ? ('timed_out' as const) : run.status,
      timed_out: true,
      message: isOver
        ? `It is still ${run.status} after ${input.timeout_seconds} s. Call again to keep waiting.`
        : `It is still ${run.status}. One call waits ${limits.runWaitMsMax / 1000} s at most; call again to keep waiting.`,
    }
  }

  async function stateOf(tx: ReadTx, run: Run) {
    return {
      execution_id: run.id,
      iteration_count: run.iteration,
      last_output: isEnded(run) ? endOutput(run) : await latestOutput(tx, run),
      last_error: run.error === null ? null : `${run.error.code}: ${run.error.message}`,
      started_at: isoTime(run.startedAtMs),
      ended_at: run.endedAtMs === null ? null : isoTime(run.endedAtMs),
    }
  }

  /** For an active run, the output of its latest iteration; without a workspace, the rejected output. */
  async function latestOutput(tx: ReadTx, run: Run): Promise<string | null> {
    let latest: string | null = null
    let printedIn: number | null = null
    for (let offset = 0; offset < run.lastSequence; offset += limits.runEventsPageMax) {
      const { events } = await engine.events(tx, run, { limit: limits.runEventsPageMax, offset })
      for (const { type, payload, iteration } of events) {
        if (type === 'console_output') {
          latest = (payload as { stdout?: string }).stdout ?? latest
          printedIn = iteration
        } else if (type === 'iteration_failed' && iteration !== printedIn) {
          latest = (payload as { output?: string }).output || latest
        }
      }
    }
    return latest === null ? null : shortened(latest, limits.iterationOutputBytesMax)
  }

  return {
    ...createRunFiles({ engine, workspaces, visible }),
    ...createForks({ ...deps, visible, ownerOf }),
    begin,
    ownerOf,
    execute,
    delegate,
    status,
    list,
    cancel,
    remove,
    logs,
    wait,
    visible,
  }
}

/** The same message whether it belongs to another owner or does not exist. */
const executionNotFound = (id: string): AppError =>
  new AppError(
    'ERR_EXECUTION_NOT_FOUND',
    `execution_id: you have no execution '${id.slice(0, 64).toWellFormed()}'; list yours with aegis.task.list`,
    { field: 'execution_id', execution_id: id.slice(0, 128).toWellFormed() },
  )

const wrongState = ({ id, status }: Run, reason: string): AppError =>
  new AppError('ERR_EXECUTION_STATE', `execution_id: the execution is ${status}: ${reason}`, {
    execution_id: id,
    status,
  })

const endOutput = ({ output }: Run): string | null =>
  output === null ? null : (output as unknown as ExecutionOutput).text

/** Payloads can be whole answers of models and tools, so they are cut to let a page fit into an answer. */
export function toLogRow({ sequence, type, payload, atMs }: RunEvent) {
  const text = JSON.stringify(payload)
  const isLong = text.length > limits.runEventBytesMax
  const displayed = isLong
    ? { truncated: true, bytes: Buffer.byteLength(text), preview: text.slice(0, 1_024).toWellFormed() }
    : typeof payload === 'object' && payload !== null && !Array.isArray(payload)
      ? payload
      : { value: payload }
  return {
    sequence,
    event_type: type,
    payload: displayed as Readonly<Record<string, unknown>>,
    recorded_at: isoTime(atMs),
  }
}
