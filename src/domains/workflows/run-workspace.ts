import { AppError } from '../../contract/app-error.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { namedFailure } from '../runs/tool-client.ts'
import { askTool, callTool } from './invoker-calls.ts'
import type { ContainerStep, WorkflowManifest } from './manifest-schema.ts'
import type { RunDeps, Visit } from './run-ports.ts'

/** The workspace of a run, as recorded in its journal. */
export type RunWorkspace = Readonly<{ id: string; image: string; made_at_ms: number; owned: boolean; turn: number }>
/** Journals of earlier versions have the time under another name. */
type Recorded = RunWorkspace & Readonly<{ madeAtMs?: number }>

const HOUR_MS = 3_600_000
const expiredKey = (turn: number): string => `workspace-${turn}/expired`
const keyOf = (turn: number): string => `workspace-${turn}`
const nameOf = (run: Run, turn: number): string => `wf-${run.id}${turn === 0 ? '' : `-${turn}`}`

/** The number of the current workspace: a new one is created when the time to live of the previous has ended. */
function latestTurn(steps: Steps): number {
  let turn = 0
  while (steps.recorded(keyOf(turn + 1)) !== undefined) turn++
  return turn
}

/**
 * The workspace that all states of a run share. It is created when the first state needs it, in one step of the journal. Its name
 * is derived from the run, so that a workspace that a crash left unrecorded is found again.
 */
export async function workspaceOf(visit: Visit): Promise<RunWorkspace> {
  const { steps, manifest } = visit
  const turn = latestTurn(steps)
  const current = await openTurn(visit, turn)
  const expiresAtMs = expiryOf(manifest, current)
  return expiresAtMs === null || steps.nowMs() < expiresAtMs ? current : await openTurn(visit, turn + 1)
}

/** The current workspace, if a state has needed one. */
export const recordedWorkspace = (steps: Steps): RunWorkspace | undefined =>
  steps.result(keyOf(latestTurn(steps))) as unknown as RunWorkspace | undefined

function expiryOf({ storage }: WorkflowManifest, { made_at_ms, madeAtMs, owned }: Recorded): number | null {
  const { ttlHours } = storage.workspace
  return ttlHours === null || !owned ? null : (made_at_ms ?? madeAtMs ?? 0) + ttlHours * HOUR_MS
}

/** When the content of the workspace must be removed; null if it need not be. */
export function workspaceExpiry({ steps, manifest }: Pick<Visit, 'steps' | 'manifest'>): number | null {
  const current = recordedWorkspace(steps)
  return current === undefined || steps.recorded(expiredKey(current.turn)) !== undefined
    ? null
    : expiryOf(manifest, current)
}

/** For a run that waits longer than its workspace lives: removes the files now. The next use creates a new workspace. */
export async function expireWorkspace(visit: Visit): Promise<void> {
  const { run, steps, deps } = visit
  const current = recordedWorkspace(steps)
  if (current === undefined) return
  await steps.once(
    expiredKey(current.turn),
    async () => {
      await destroy({ run, steps, deps }, nameOf(run, current.turn))
      return { result: { workspace_id: current.id } }
    },
    { type: 'workspace_expired' },
  )
}

async function openTurn(visit: Visit, turn: number): Promise<RunWorkspace> {
  const { steps, run, manifest, deps } = visit
  const { volumeId } = manifest.storage.workspace
  return await steps.once<RunWorkspace & Json>(
    keyOf(turn),
    async ({ interrupted }) => {
      const found =
        volumeId === null
          ? await makeWorkspace(visit, turn, interrupted)
          : await askTool(visit, 'workspace_info', { workspace_id: volumeId })
      const id = String(found['workspace_id'])
      if (turn > 0) await destroy({ run, steps, deps }, nameOf(run, turn - 1))
      const result = {
        id,
        image: String(found['base_image']),
        made_at_ms: deps.clock.nowMs(),
        owned: volumeId === null,
        turn,
      }
      const wasTold = turn === 0 || steps.recorded(expiredKey(turn - 1)) !== undefined
      const events = wasTold ? [] : [{ type: 'workspace_expired', payload: { replaced_by: id } }]
      return { result, events: [{ type: 'workspace_ready', payload: { workspace_id: id } }, ...events] }
    },
    { type: 'step_completed', intent: true },
  )
}

async function makeWorkspace(visit: Visit, turn: number, interrupted: boolean): Promise<JsonObject> {
  const { run, manifest } = visit
  const name = nameOf(run, turn)
  if (interrupted) {
    const left = await callTool(visit, 'workspace_info', { workspace_id: name })
    if (!left.isError) return left.value as JsonObject
  }
  const answer = await callTool(visit, 'workspace_create', { name, ...sizeFor(manifest) })
  if (!answer.isError) return answer.value as JsonObject
  if (answer.code === 'ERR_ALREADY_EXISTS') return await askTool(visit, 'workspace_info', { workspace_id: name })
  throw namedFailure('workspace_create', answer)
}

/** The resources of the most demanding step. Concurrent steps have copies of the workspace. */
function sizeFor({ states, storage }: WorkflowManifest): JsonObject {
  const all = [...states.values()].flatMap((state): readonly ContainerStep[] =>
    state.kind === 'ContainerRun' ? [state.step] : state.kind === 'ParallelContainerRun' ? state.steps : [],
  )
  const most = (pick: (step: ContainerStep) => number | null): number =>
    Math.max(0, ...all.map((one) => pick(one) ?? 0))
  const [cpu, memory] = [most(({ resources }) => resources.cpuMillis), most(({ resources }) => resources.memoryMb)]
  const { sizeLimitMb } = storage.workspace
  return {
    ...(cpu > 0 && { vcpus: Math.ceil(cpu / 1000) }),
    ...(memory > 0 && { memory_mb: Math.max(256, memory) }),
    ...(sizeLimitMb !== null && { disk_gb: Math.max(1, Math.ceil(sizeLimitMb / 1024)) }),
  }
}

/** Removes the workspaces of a run when it ends, in whatever way. A persistent one stays. */
export async function endWorkspace(run: Run, steps: Steps, deps: RunDeps, manifest: WorkflowManifest): Promise<void> {
  const { storageClass, volumeId } = manifest.storage.workspace
  if (volumeId !== null || storageClass === 'persistent') return
  const turn = latestTurn(steps)
  const hasStarted = steps.recorded(keyOf(turn)) !== undefined || steps.recorded(`${keyOf(turn)}~began`) !== undefined
  if (!hasStarted) return
  // If creating a new workspace failed, the previous one has not been replaced.
  const left = turn > 0 && steps.result(keyOf(turn)) === undefined ? [turn - 1, turn] : [turn]
  await steps.once('workspace-gone', async () => {
    for (const one of left) await destroy({ run, steps, deps }, nameOf(run, one))
    return { result: {} }
  })
}

type RunContext = Pick<Visit, 'run' | 'steps' | 'deps'>

/** A workspace that does not exist counts as destroyed. */
export async function destroy(context: RunContext, workspace: string): Promise<void> {
  const answer = await callTool(context, 'workspace_destroy', { workspace_id: workspace })
  if (!answer.isError || answer.code === 'ERR_WORKSPACE_NOT_FOUND') return
  throw namedFailure('workspace_destroy', answer)
}

/** Puts the id of the workspace onto the blackboard. */
export const workspaceWrites = ({ manifest }: Visit, { id }: RunWorkspace): JsonObject => ({
  [manifest.storage.workspace.blackboardKey]: id,
})

/** A state whose workspace is unavailable fails; the run continues with its transitions. */
export const failedBy = (error: unknown): JsonObject => {
  if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
  return { status: 'failed', error: error.message, error_code: error.code }
}
