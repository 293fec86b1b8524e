import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Engine, Run, RunEvent } from '../../engine/ports.ts'
import type { Replay } from '../../engine/replay.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { nextSpawnDepth } from '../runs/spawn-depth.ts'
import { hasModel, type Models } from './model.ts'
import type { AgentDirectory, ExecutionInput, SnapshotService } from './ports.ts'
import { shortened } from './prompt.ts'
import { fittingInput } from './schema.ts'
import { needsWorkspace, type TakenSnapshot } from './workspace.ts'

type ForkRequest = Readonly<{
  execution_id: string
  iteration: number
  intent?: string | undefined
  input?: Readonly<Record<string, unknown>> | undefined
  model?: string | undefined
  max_iterations?: number | undefined
}>
type ReplayRequest = Readonly<{ execution_id: string; version?: string | undefined }>

export type ForkDeps = Readonly<{
  engine: Engine
  agents: AgentDirectory
  snapshots: SnapshotService
  models: Pick<Models, 'aliases' | 'requireAlias'>
  /** The execution that the caller may see. */
  visible(call: Pick<Call, 'principal'>, tx: ReadTx, id: string): Promise<Run>
  ownerOf(tx: ReadTx, principal: Call['principal']): Promise<string>
  /** Runs the loop against recorded results, without side effects. */
  replay(run: Run, events: readonly RunEvent[]): Promise<Replay>
}>

/** Forks that continue another execution from an iteration, and replays under the current rules. */
export function createForks({ engine, agents, snapshots, models, visible, ownerOf, replay }: ForkDeps) {
  async function journalOf(tx: ReadTx, run: Run): Promise<RunEvent[]> {
    const events: RunEvent[] = []
    while (events.length < run.lastSequence) {
      const page = await engine.events(tx, run, { limit: limits.runEventsPageMax, offset: events.length })
      if (page.events.length === 0) break
      events.push(...page.events)
    }
    return events
  }

  async function requireRetained(tx: ReadTx, run: Run, { workspace_id, name }: TakenSnapshot, iteration: number) {
    if (await snapshots.hasSnapshot(tx, run.tenant, workspace_id, name!)) return
    throw notRetained(
      run,
      iteration,
      `only the newest ${limits.executionSnapshotsMax} of an execution are kept, and only for a while; fork from a later iteration`,
    )
  }

  /** A given name is checked now; that of the manifest is checked when the execution reaches it. */
  function requireModel(model: string): void {
    const aliases = models.aliases()
    if (aliases.length === 0) models.requireAlias(model)
    if (hasModel(models, model)) return
    throw new AppError(
      'ERR_MODEL_UNAVAILABLE',
      `model: no provider has a model with the alias '${model.slice(0, 64).toWellFormed()}'; use one of ${aliases.join(', ')}`,
      { field: 'model', aliases },
    )
  }

  return {
    /** Copies the journal up to the end of the iteration into a new run, which continues from there. */
    async fork(call: Call, request: ForkRequest) {
      const tx = call.write as unknown as ReadTx
      const run = await visible(call, tx, request.execution_id)
      const executionInput = run.input as unknown as ExecutionInput
      if (executionInput.role === 'judge')
        throw refusal(run, 'execution_id: this execution judges another one; fork that one instead')
      const { iteration, model } = request
      if (model !== undefined) requireModel(model)
      if (executionInput.preparesWorkspace && iteration > 0) {
        throw refusal(
          run,
          'iteration: the execution used a workspace of yours, whose state was not saved; fork from iteration 0',
        )
      }
      const events = await journalOf(tx, run)
      const journal = iteration === 0 ? [] : journalUpTo(run, executionInput, events, request)
      const snapshot = iteration === 0 || !needsWorkspace(executionInput) ? null : snapshotAt(run, events, iteration)
      if (snapshot !== null) await requireRetained(tx, run, snapshot, iteration)
      const spawnDepth = await nextSpawnDepth(engine, tx, call.principal)
      const forkInput = changed(executionInput, request, snapshot)
      const input = {
        ...forkInput,
        input: await fittingInput(forkInput.manifest, forkInput.input),
        generation: spawnDepth,
      }
      const owner = await ownerOf(tx, call.principal)
      const { id: agentId, name, version } = executionInput.agent
      const forkedFrom = { execution_id: run.id, iteration }
      const fork = await engine.start(call, {
        kind: 'execution',
        subjectId: agentId,
        subjectName: name,
        subjectVersion: version,
        owner,
        input: input as unknown as Json,
        payload: { agent_id: agentId, agent: name, version, by: call.principal.actor, forked_from: forkedFrom },
        journal,
        copiedFrom: run.rootId,
      })
      call.record({ kind: 'execution_forked', body: { run_id: fork.id, from: run.id, iteration, owner } })
      return { execution_id: fork.id, forked_from: run.id, iteration, status: 'started' as const }
    },

    /** Uses the current program, and the manifest of another version if given. */
    async replay(call: Call, { execution_id, version }: ReplayRequest) {
      const run = await visible(call, call.read, execution_id)
      const recorded = run.input as unknown as ExecutionInput
      const agent =
        version === undefined ? undefined : await agents.resolve(call.read, call.principal, recorded.agent.id, version)
      const input = agent === undefined ? recorded : { ...recorded, manifest: agent.manifest }
      const events = await journalOf(call.read, run)
      const { steps, difference, end } = await replay({ ...run, input: input as unknown as Json }, events)
      const at = difference?.sequence == null ? undefined : events[difference.sequence - 1]
      return {
        execution_id: run.id,
        version: agent?.version ?? recorded.agent.version,
        same: difference === null,
        steps,
        recorded_status: run.status,
        replayed_status: difference === null || end !== undefined ? (end?.status ?? null) : null,
        difference: difference && {
          kind: difference.kind,
          step: difference.step,
          sequence: difference.sequence,
          iteration: at?.iteration ?? null,
          recorded: displayed(difference.recorded),
          replayed: displayed(difference.replayed),
        },
      }
    },
  }
}

const DISPLAYED_CHARS_MAX = 4_096
const displayed = (value: Json): string | null =>
  value === null ? null : shortened(JSON.stringify(value), DISPLAYED_CHARS_MAX).toWellFormed()

const endings: ReadonlySet<string> = new Set(['iteration_failed', 'iteration_completed'])
const notCopied: ReadonlySet<string> = new Set(['execution_started', 'cancel_requested', 'run_resumed'])

function journalUpTo(
  run: Run,
  { manifest }: ExecutionInput,
  events: readonly RunEvent[],
  request: ForkRequest,
): readonly RunEvent[] {
  const { iteration } = request
  const ended = events.flatMap(({ type, payload }) =>
    endings.has(type) ? [(payload as { iteration: number }).iteration] : [],
  )
  if (!ended.includes(iteration)) {
    const can = [0, ...ended].join(', ')
    throw refusal(
      run,
      `iteration: iteration ${iteration} did not complete; fork from ${can}, where 0 is the beginning`,
      'iteration',
    )
  }
  const most = request.max_iterations ?? manifest.execution.maxIterations
  if (iteration >= most) {
    throw refusal(
      run,
      `max_iterations: must be more than ${iteration}, the number of iterations already done, but is ${most}`,
      'max_iterations',
    )
  }
  const ends = new Set([`iteration-${iteration}/snapshot`, `iteration-${iteration}/refined`])
  const isEnd = ({ type, key, payload }: RunEvent): boolean =>
    (key !== null && ends.has(key)) || (endings.has(type) && (payload as { iteration: number }).iteration === iteration)
  const last = events.findLast(isEnd)!.sequence
  // The fork creates a workspace of its own.
  return events.filter(({ sequence, type, key }) => sequence <= last && !notCopied.has(type) && key !== 'workspace')
}

function snapshotAt(run: Run, events: readonly RunEvent[], iteration: number): TakenSnapshot {
  const key = `iteration-${iteration}/snapshot`
  const found = events.find((event) => event.key === key)?.payload as TakenSnapshot | undefined
  if (found?.name != null) return found
  throw notRetained(
    run,
    iteration,
    found?.reason ?? 'set executions.snapshots in the configuration before the execution',
  )
}

const notRetained = ({ id }: Run, iteration: number, why: string): AppError =>
  new AppError(
    'ERR_SNAPSHOT_NOT_FOUND',
    `iteration: there is no snapshot of the workspace at the end of iteration ${iteration}: ${why}; iteration 0, the beginning, is always possible`,
    { field: 'iteration', execution_id: id, iteration },
  )

function changed(input: ExecutionInput, request: ForkRequest, snapshot: TakenSnapshot | null): ExecutionInput {
  const { manifest } = input
  const { fork: _, continuesAfter: __, ...rest } = input
  return {
    ...rest,
    ...(request.intent !== undefined && { intent: request.intent }),
    ...(request.input !== undefined && { input: request.input as Json }),
    manifest: {
      ...manifest,
      runtime: { ...manifest.runtime, model: request.model ?? manifest.runtime.model },
      execution: {
        ...manifest.execution,
        maxIterations: request.max_iterations ?? manifest.execution.maxIterations,
      },
    },
    untilMs: null,
    ...(request.iteration > 0 && { continuesAfter: request.iteration }),
    ...(snapshot !== null && { fork: { workspaceId: snapshot.workspace_id, snapshot: snapshot.name! } }),
  }
}

const refusal = ({ id, status }: Run, message: string, field = 'execution_id'): AppError =>
  new AppError('ERR_EXECUTION_STATE', message, { field, execution_id: id, status })
