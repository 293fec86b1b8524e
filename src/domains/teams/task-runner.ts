import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { JobSummary } from '../workspaces/backend.ts'
import { shellArgv } from '../workspaces/exec.ts'
import { titleOf } from '../workspaces/jobs.ts'
import type { Workspace } from '../workspaces/ports.ts'
import { commandEnv } from '../workspaces/run.ts'
import type { TeamDeps } from './core.ts'
import type { OpenTask, TaskAssignment, TaskResult } from './ports.ts'
import { resultOfJob, resultOfRefusal, resultOfStop } from './task-result.ts'

const WORKDIR_DEFAULT = '/workspace'

type TaskRunner = Readonly<{
  /** Something may have changed, perhaps in a transaction in progress: reconciles as soon as that is committed. */
  wake(): void
  /** Completes the current pass, if there is one, and stops. */
  close(): Promise<void>
}>

/**
 * Runs the tasks that agents were assigned, as background jobs of their workspaces.
 * 1. The records say what is queued, running and done. A task is recorded as running before its job is started. The job
 *    has the message's id as its key, so a second start, after a crash or at the same time, gets the same job.
 * 2. Jobs continue without a server. The next server records their results.
 * 3. The number of concurrent jobs in a workspace is bounded; the others wait in order.
 * 4. Tasks are reconciled on request, then at growing intervals while any is unfinished, by one timer. A store that
 *    other processes also write is polled all the time.
 */
export function createTaskRunner(deps: TeamDeps): TaskRunner {
  const { store, database, logger } = deps
  const isShared = database.kind === 'postgres'
  const problems = new Map<string, string>()
  let timer: NodeJS.Timeout | undefined
  let reconciling: Promise<void> | undefined
  let isScheduled = false
  let isClosed = false
  let waitMs: number = limits.teamReconcileMsMin

  function wake(): void {
    if (isClosed || deps.isReadOnly) return
    waitMs = limits.teamReconcileMsMin
    isScheduled = true
    reconcile()
  }

  function reconcile(): void {
    if (reconciling !== undefined || isClosed) return
    clearTimeout(timer)
    reconciling = reconcileUntilIdle().then((isOpen) => {
      reconciling = undefined
      if (isClosed) return
      if (isScheduled) return reconcile()
      if (!isOpen && !isShared) return
      waitMs = Math.min(isOpen ? waitMs * 1.5 : limits.teamReconcileMsMax, limits.teamReconcileMsMax)
      timer = setTimeout(reconcile, waitMs)
      timer.unref()
    })
  }

  /** Returns whether unfinished tasks remain. */
  async function reconcileUntilIdle(): Promise<boolean> {
    try {
      for (;;) {
        isScheduled = false
        await database.flush()
        const open = await store.openTasksOnNode(database.read, deps.node)
        const changes = await Promise.all([...byAgent(open).values()].map(lease))
        if (isClosed || !(isScheduled || changes.includes(true))) return open.length > 0
      }
    } catch (error) {
      logger.warn('reconcile of team tasks failed', { cause: String(error) })
      return true
    }
  }

  /** The tasks of one agent. Returns whether one started or ended. */
  async function lease(tasks: readonly OpenTask[]): Promise<boolean> {
    const { tenant, team, agent, workspaceId } = tasks[0]!
    const about = `${tenant}/${team}/${agent}`
    try {
      const id = workspaceId ?? ''
      const workspace = await deps.workspaceRows.findWorkspace(database.read, tenant, id)
      const changed = workspace === undefined ? await refuseAll(tasks) : await leaseIn(workspace, tasks)
      problems.delete(about)
      return changed
    } catch (error) {
      const cause = String(error)
      if (problems.get(about) !== cause) logger.warn('reconcile of the tasks of an agent failed', { about, cause })
      problems.set(about, cause)
      return false
    }
  }

  async function refuseAll(tasks: readonly OpenTask[]): Promise<boolean> {
    const ended = await Promise.all(
      tasks.map((task) =>
        end(task, (assignment) =>
          resultOfRefusal({ assignment, messageId: task.messageId }, 'The workspace no longer exists.'),
        ),
      ),
    )
    return ended.includes(true)
  }

  /** Queued tasks wait for a workspace that is stopped, or being changed. */
  async function leaseIn(workspace: Workspace, tasks: readonly OpenTask[]): Promise<boolean> {
    const running = tasks.filter(({ state }) => state === 'running')
    if (workspace.state === 'stopped' && workspace.operation === null) return await endStopped(running)
    if (workspace.state !== 'running') return false
    const jobs = await listJobs(workspace)
    if (jobs === undefined) return await endStopped(running)
    let changed = false
    let budget = limits.teamTasksRunningMax - running.length
    for (const task of running) {
      if (!(await follow(workspace, task, jobs))) continue
      changed = true
      budget++
    }
    for (const task of tasks) {
      if (budget <= 0 || isClosed) break
      if (task.state !== 'queued') continue
      if (!(await begin(task))) continue
      // A workspace that ended meanwhile is not queried again before the records show it.
      if (!(await startJob(workspace, task))) break
      budget--
      changed = true
    }
    return changed
  }

  /** Counted in the same transaction: another server may be running tasks of the same agent. */
  const begin = (task: OpenTask): Promise<boolean> =>
    database.write(task.tenant, async (tx) => {
      const counts = (await store.taskCounts(tx, task.tenant, task.team)).get(task.agent)
      return (counts?.running ?? 0) < limits.teamTasksRunningMax && (await store.beginTask(tx, task))
    })

  /** Undefined if the workspace does not run, whatever the records say. */
  async function listJobs({ id }: Workspace): Promise<readonly JobSummary[] | undefined> {
    try {
      return await deps.backend.jobs.list(id)
    } catch (error) {
      if (isNotRunning(error)) return undefined
      throw error
    }
  }

  async function endStopped(running: readonly OpenTask[]): Promise<boolean> {
    const ended = await Promise.all(
      running.map((task) => end(task, (assignment) => resultOfStop({ assignment, messageId: task.messageId }))),
    )
    return ended.includes(true)
  }

  /** Returns whether it has ended. */
  async function follow(workspace: Workspace, task: OpenTask, jobs: readonly JobSummary[]): Promise<boolean> {
    const job = jobs.find(({ key }) => key === task.messageId)
    if (job === undefined && task.jobId === null) {
      await startJob(workspace, task)
      return false
    }
    if (job?.running === true) return false
    const { messageId } = task
    const ended = await end(task, async (assignment) => {
      const result = job && (await resultOfJob(deps.backend.jobs, workspace.id, job, { assignment, messageId }))
      return result ?? resultOfRefusal({ assignment, messageId }, 'Its job was removed before its result was read.')
    })
    if (job !== undefined) await forgetJob(workspace, job.jobId)
    return ended
  }

  /**
   * If the start fails while the back end answers other requests, the command itself failed. Returns false if the
   * workspace does not run: then no job was started, and the task waits like the others.
   */
  async function startJob(workspace: Workspace, task: OpenTask): Promise<boolean> {
    const assignment = await store.findAssignment(database.read, task)
    if (assignment === undefined) return true
    try {
      const image = await deps.workspaces.imageDefaults(workspace)
      const { jobId } = await deps.backend.jobs.start(workspace.id, {
        argv: shellArgv(assignment.command),
        workdir: assignment.workdir ?? WORKDIR_DEFAULT,
        env: commandEnv(workspace, image, assignment.env),
        timeoutMs: assignment.timeout_secs * 1000,
        key: task.messageId,
        title: titleOf(assignment.command),
      })
      await database.write(task.tenant, (tx) => store.noteJob(tx, task, jobId))
      return true
    } catch (error) {
      if (isNotRunning(error)) {
        await database.write(task.tenant, (tx) => store.putTaskBack(tx, task))
        return false
      }
      if (!(error instanceof AppError)) throw error
      await deps.backend.jobs.list(workspace.id)
      await end(task, () => resultOfRefusal({ assignment, messageId: task.messageId }, error.message))
      return true
    }
  }

  async function forgetJob({ id }: Workspace, jobId: number): Promise<void> {
    try {
      await deps.backend.jobs.remove(id, jobId)
    } catch (error) {
      logger.warn('job of a finished task could not be removed', { workspace: id, job: jobId, cause: String(error) })
    }
  }

  /** Returns whether this result was recorded. */
  async function end(
    task: OpenTask,
    result: (assignment: TaskAssignment) => TaskResult | Promise<TaskResult>,
  ): Promise<boolean> {
    const assignment = await store.findAssignment(database.read, task)
    if (assignment === undefined) return false
    const made = await result(assignment)
    return await database.write(task.tenant, (tx) => store.finishTask(tx, task, made))
  }

  return {
    wake,
    async close() {
      isClosed = true
      clearTimeout(timer)
      await reconciling
    },
  }
}

const isNotRunning = (error: unknown): boolean =>
  error instanceof AppError && (error.code === 'ERR_WORKSPACE_STOPPED' || error.code === 'ERR_WORKSPACE_STATE')

function byAgent(tasks: readonly OpenTask[]): ReadonlyMap<string, readonly OpenTask[]> {
  const groups = new Map<string, OpenTask[]>()
  for (const task of tasks) {
    const key = JSON.stringify([task.tenant, task.team, task.agent])
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [task])
    else group.push(task)
  }
  return groups
}
