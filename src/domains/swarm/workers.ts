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

/** Why a worker has something that is nowhere else: its commits were not merged, or not everything is committed. */
export type Unmerged = 'refused' | 'failed' | 'uncommitted'

export type Failure = Readonly<{ code: ErrorCode; message: string }>

/** One task and the workspace that is forked for it; filled in as the task goes on. */
export type Worker = {
  readonly task: SwarmTask
  readonly name: string
  phase: 'queued' | 'forking' | 'running' | 'ended'
  workspace: Workspace | undefined
  /** The commit that it began with, where one is going to be merged. */
  beginning: string | undefined
  isDestroyed: boolean
  /** Stays although the others are removed: something of it is in no merge. */
  unmerged: Unmerged | undefined
  result: RunResult | undefined
  error: Failure | undefined
  /** Why it is still there though it should be gone. */
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

/**
 * Streams share one answer with those of the other tasks, and the report of a merge has to fit in as well: each counts
 * as one and a half.
 */
const ANSWER_SHARE = 1.5

type Ears = Readonly<{ onUp(): void; beginningOf: ((at: Workspace) => Promise<string | undefined>) | undefined }>

export function createWorkers(deps: SwarmDeps) {
  const { workspaces, git, clock, logger } = deps

  /** Forks, runs and notes what became of it; a failure of one is no failure of the others. */
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

  /** An image need not have the folder that repositories are put in. */
  async function folderOf(at: Workspace): Promise<string | undefined> {
    try {
      return (await workspaces.openFiles(at).stat(WORKSPACE_FOLDER)).kind === 'dir' ? WORKSPACE_FOLDER : undefined
    } catch (error) {
      if (error instanceof AppError && error.code === 'ERR_FILE_NOT_FOUND') return undefined
      throw error
    }
  }

  /** Also after the call was cancelled. What cannot be destroyed now is bound to this process and goes with it. */
  async function dismiss(call: Call, worker: Worker): Promise<void> {
    const { workspace } = worker
    if (workspace === undefined || worker.isDestroyed) return
    try {
      await workspaces.destroyWorkspace(uninterrupted(call), workspace)
      worker.isDestroyed = true
      worker.notDestroyed = undefined
    } catch (error) {
      worker.notDestroyed = failureOf(error)
      logger.warn('a worker was not destroyed; the next start tries again', { id: workspace.id, cause: String(error) })
    }
  }

  async function keep(call: Call, worker: Worker): Promise<void> {
    const { workspace } = worker
    if (workspace === undefined || worker.isDestroyed) return
    try {
      await workspaces.keepWorkspace(call, workspace)
    } catch (error) {
      // It was destroyed meanwhile.
      worker.isDestroyed = true
      worker.error ??= failureOf(error)
    }
  }

  /** Of an error that is not ours nothing is told. */
  function failureOf(error: unknown): Failure {
    if (error instanceof AppError) return { code: error.code, message: error.message }
    logger.error('a task of a swarm failed', { cause: String(error) })
    return { code: 'ERR_INTERNAL', message: 'It failed inside Castellan; see the server log' }
  }

  /** The commit that the workers begin with: asked of the first that is up, before its task runs. */
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

  /** Where nobody can say, there is. */
  async function hasUnsaved(call: Call, { workspace, beginning }: Worker, isMerged: boolean): Promise<boolean> {
    if (beginning === undefined) return false
    const request = { workspace_id: workspace!.id, path: WORKSPACE_FOLDER, since: beginning, isMerged }
    return await git.hasUnsaved(uninterrupted(call), request).catch(() => true)
  }

  return { work, dismiss, keep, failureOf, createBeginning, hasUnsaved }
}

const LINE_BYTES = 240
