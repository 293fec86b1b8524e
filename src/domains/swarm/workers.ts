import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import { shellArgv } from '../workspaces/exec.ts'
import type { NetworkPolicy, Workspace } from '../workspaces/ports.ts'
import { lastLine, type RunResult } from '../workspaces/run.ts'
import { uninterrupted } from './call-view.ts'
import type { SwarmDeps } from './ports.ts'
import { SHARED_CONTEXT_FILE, type SwarmTask, WORKSPACE_FOLDER } from './rules.ts'

export type SwarmPlan = Readonly<{
  swarmId: string
  golden: Workspace
  snapshotName: string
  env: Workspace['env']
  network: NetworkPolicy
  sharedContext: string | undefined
  timeoutMs: number
  taskCount: number
}>

/** Why a worker has work that exists nowhere else: its commits were not merged, or it has uncommitted changes. */
export type Unmerged = 'refused' | 'failed' | 'uncommitted'

export type Failure = Readonly<{ code: ErrorCode; message: string }>

/** One task and the workspace that is forked for it. Filled in as the task proceeds. */
export type Worker = {
  readonly task: SwarmTask
  readonly name: string
  phase: 'queued' | 'forking' | 'running' | 'ended'
  workspace: Workspace | undefined
  /** The commit that it starts from, if a merge was requested. */
  beginning: string | undefined
  isDestroyed: boolean
  /** Set if the worker stays because its work is not merged. */
  unmerged: Unmerged | undefined
  result: RunResult | undefined
  error: Failure | undefined
  /** Why it could not be destroyed. */
  notDestroyed: Failure | undefined
  queuedMs: number
  forkMs: number
  lastLine: string
}

export const newWorker = (task: SwarmTask, name: string): Worker => ({
  task,
  name,
  phase: 'queued',
  workspace: undefined,
  beginning: undefined,
  isDestroyed: false,
  unmerged: undefined,
  result: undefined,
  error: undefined,
  notDestroyed: undefined,
  queuedMs: 0,
  forkMs: 0,
  lastLine: '',
})

export const hasSucceeded = ({ result }: Worker): boolean => result?.exitCode === 0 && !result.timedOut

export const isLeft = ({ workspace, isDestroyed }: Worker): boolean => workspace !== undefined && !isDestroyed

/** The streams of all tasks and the report of a merge share one answer, so each stream counts as one and a half. */
const ANSWER_SHARE = 1.5

type Ears = Readonly<{ onUp(): void; beginningOf: ((at: Workspace) => Promise<string | undefined>) | undefined }>

export function createWorkers(deps: SwarmDeps) {
  const { workspaces, git, clock, logger } = deps

  /** Forks, runs the task and records the result. A failure does not affect other workers. */
  async function work(call: Call, plan: SwarmPlan, worker: Worker, { onUp, beginningOf }: Ears): Promise<void> {
    try {
      const startedMs = clock.monotonicMs()
      worker.phase = 'forking'
      try {
        worker.workspace = await fork(call, plan, worker)
      } finally {
        worker.forkMs = Math.round(clock.monotonicMs() - startedMs)
      }
      worker.beginning = await beginningOf?.(worker.workspace)
      worker.phase = 'running'
      onUp()
      worker.result = await run(call, plan, worker, worker.workspace)
    } catch (error) {
      worker.error = failureOf(error)
    } finally {
      worker.phase = 'ended'
    }
  }

  const fork = (call: Call, plan: SwarmPlan, { name }: Worker): Promise<Workspace> =>
    workspaces.forkWorkspace(call, plan.golden, {
      snapshotName: plan.snapshotName,
      name,
      network: plan.network,
      env: plan.env,
      bound: true,
    })

  async function run(call: Call, plan: SwarmPlan, worker: Worker, at: Workspace): Promise<RunResult> {
    const { task } = worker
    const files = workspaces.openFiles(at)
    const env: Record<string, string> = {}
    if (plan.sharedContext !== undefined) {
      await files.write(SHARED_CONTEXT_FILE, Buffer.from(plan.sharedContext))
      env['SHARED_CONTEXT'] = SHARED_CONTEXT_FILE
    }
    const request = {
      argv: shellArgv(task.command),
      workdir: task.workdir ?? (await folderOf(at)),
      env: { ...env, ...task.env },
      timeoutMs: plan.timeoutMs,
      onOutput(_stream: 'stdout' | 'stderr', chunk: Uint8Array) {
        worker.lastLine = lastLine(chunk.subarray(-LINE_BYTES))
      },
    }
    return await workspaces.run(call, at, request, plan.taskCount * ANSWER_SHARE)
  }

  /** An image need not have the repository folder. */
  async function folderOf(at: Workspace): Promise<string | undefined> {
    try {
      return (await workspaces.openFiles(at).stat(WORKSPACE_FOLDER)).kind === 'dir' ? WORKSPACE_FOLDER : undefined
    } catch (error) {
      if (error instanceof AppError && error.code === 'ERR_FILE_NOT_FOUND') return undefined
      throw error
    }
  }

  /** Also runs after a cancellation. A worker that cannot be destroyed now is bound to this process, and goes with it. */
  async function dismiss(call: Call, worker: Worker): Promise<void> {
    const { workspace } = worker
    if (workspace === undefined || worker.isDestroyed) return
    try {
      await workspaces.destroyWorkspace(uninterrupted(call), workspace)
      worker.isDestroyed = true
      worker.notDestroyed = undefined
    } catch (error) {
      worker.notDestroyed = failureOf(error)
      logger.warn('swarm worker could not be destroyed; the next start tries again', {
        id: workspace.id,
        cause: String(error),
      })
    }
  }

  async function keep(call: Call, worker: Worker): Promise<void> {
    const { workspace } = worker
    if (workspace === undefined || worker.isDestroyed) return
    try {
      await workspaces.keepWorkspace(call, workspace)
    } catch (error) {
      // It was destroyed by another caller.
      worker.isDestroyed = true
      worker.error ??= failureOf(error)
    }
  }

  /** The text of an unexpected error is not revealed. */
  function failureOf(error: unknown): Failure {
    if (error instanceof AppError) return { code: error.code, message: error.message }
    logger.error('swarm task failed', { cause: String(error) })
    return { code: 'ERR_INTERNAL', message: 'It failed because of an internal error; see the server log' }
  }

  /** The commit that the workers start from, read from the first that is up, before its task runs. */
  function createBeginning(call: Call) {
    let commit: Promise<string | undefined> | undefined
    return (at: Workspace): Promise<string | undefined> => {
      commit ??= git.status(uninterrupted(call), { workspace_id: at.id, path: WORKSPACE_FOLDER }).then(
        ({ commit_sha }) => commit_sha ?? undefined,
        () => undefined,
      )
      return commit
    }
  }

  /** If it cannot be determined, the answer is yes. */
  async function hasUnsaved(call: Call, { workspace, beginning }: Worker, isMerged: boolean): Promise<boolean> {
    if (beginning === undefined) return false
    const request = { workspace_id: workspace!.id, path: WORKSPACE_FOLDER, since: beginning, isMerged }
    return await git.hasUnsaved(uninterrupted(call), request).catch(() => true)
  }

  return { work, dismiss, keep, failureOf, createBeginning, hasUnsaved }
}

const LINE_BYTES = 240
