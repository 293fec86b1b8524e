import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { MergeStrategy } from '../git/rules.ts'
import type { Workspace } from '../workspaces/ports.ts'
import { checkEnv, quoted } from '../workspaces/rules.ts'
import { createReporter, type Reporter } from './call-view.ts'
import { type MergeReport, type MergeRequest, mergeWorkers, requireMergeable } from './merge-workers.ts'
import type { SwarmDeps } from './ports.ts'
import { checkTasks, type SwarmTask, workerNames } from './rules.ts'
import {
  createWorkers,
  hasSucceeded,
  isLeft,
  newWorker,
  type SwarmPlan,
  type Unmerged,
  type Worker,
} from './workers.ts'

type SwarmInput = Readonly<{
  golden_workspace: string
  snapshot_name: string
  tasks: readonly SwarmTask[]
  env_vars?: Readonly<Record<string, string>> | undefined
  shared_context?: string | undefined
  merge_strategy?: MergeStrategy | undefined
  merge_target?: string | undefined
  max_parallel?: number | undefined
  timeout_secs?: number | undefined
  cleanup?: boolean | undefined
  allow_internet?: boolean | undefined
}>

/**
 * Runs many tasks, each in a fork of its own.
 *
 * 1. Everything that can be refused is refused before the first fork.
 * 2. At most `max_parallel` tasks are between fork and end at a time. A task starts when its fork is up, and its time-out
 *    counts from there. A worker that is no longer needed frees its slot at once.
 * 3. A failed task is a result. The call fails only if no fork could be created.
 * 4. However the call ends, no worker is left, unless the caller asked to keep them and learns of them. If a merge was
 *    requested, a worker also stays if it has work that exists nowhere else: commits that were not merged, whatever the result of
 *    its task, or uncommitted changes. After a cancellation no worker stays. A server that dies leaves workers that are bound to
 *    it, and the next start removes them.
 */
export function createSwarms(deps: SwarmDeps) {
  const { workspaces, clock } = deps
  const crew = createWorkers(deps)

  async function run(call: Call, input: SwarmInput) {
    const startedMs = clock.monotonicMs()
    const { plan, request } = await planSwarm(call, input)
    const names = workerNames(
      plan.swarmId,
      input.tasks.map(({ name }) => name),
    )
    const workers = input.tasks.map((task, index) => newWorker(task, names[index]!))
    const cleanup = input.cleanup ?? true
    const total = workers.length * 2 + (request === undefined ? 0 : 1) + 1
    const report = createReporter(call, total, () => presentOf(workers))
    try {
      await runAll(call, {
        plan,
        workers,
        request,
        report,
        cleanup,
        parallel: input.max_parallel ?? limits.swarmParallelDefault,
      })
      requireFork(call, workers)
      const merge = request && (await mergeWorkers(deps, call, { request, workers, report }, crew.failureOf))
      if (merge !== undefined) report.step('the merge is done')
      // A cancelled call gets no result, unless a merge has already changed the target.
      if (call.signal.aborted && (merge?.total_commits_applied ?? 0) === 0) throw cancelled()
      if (merge !== undefined && cleanup && !call.signal.aborted) await keepUnmerged(call, merge, workers)
      const told = merge && { ...merge, merged_tasks: await mergedTasks(call, merge, workers) }
      const isRetained = (worker: Worker): boolean => !cleanup || worker.unmerged !== undefined
      await Promise.all(workers.map((one) => (isRetained(one) ? crew.keep(call, one) : crew.dismiss(call, one))))
      report.step(cleanup ? 'the workers are removed' : 'the workers are kept')
      return answer(call, plan, workers, told ?? null, Math.round(clock.monotonicMs() - startedMs))
    } catch (error) {
      await Promise.all(workers.map((worker) => crew.dismiss(call, worker)))
      throw error
    } finally {
      report.stop()
    }
  }

  async function planSwarm(
    call: Call,
    input: SwarmInput,
  ): Promise<Readonly<{ plan: SwarmPlan; request: MergeRequest | undefined }>> {
    checkTasks(input.tasks)
    checkEnv('env_vars', input.env_vars ?? {})
    const golden = await workspaces.resolve(call, input.golden_workspace)
    const env = { ...golden.env, ...input.env_vars }
    checkEnv('env_vars', env)
    const snapshotName = await requireSnapshot(call, golden, input.snapshot_name)
    const network = { ...golden.network, allowInternet: input.allow_internet ?? golden.network.allowInternet }
    await workspaces.requireNetwork(call, network)
    const plan: SwarmPlan = {
      swarmId: `swarm-${deps.random.bytes(6).toString('hex')}`,
      golden,
      snapshotName,
      env,
      network,
      sharedContext: input.shared_context,
      timeoutMs: (input.timeout_secs ?? limits.swarmTimeoutDefaultSecs) * 1000,
      taskCount: input.tasks.length,
    }
    return { plan, request: await planMerge(call, input, golden) }
  }

  async function requireSnapshot(call: Call, golden: Workspace, name: string): Promise<string> {
    const snapshot = await workspaces.findSnapshot(call, golden, name)
    if (snapshot?.state === 'ready') return snapshot.name
    throw new AppError(
      'ERR_SNAPSHOT_NOT_FOUND',
      `snapshot_name: ${quoted(golden.name)} has no snapshot ${quoted(name)}; snapshot with the action list shows them`,
      { field: 'snapshot_name', workspace_id: golden.id, name: name.slice(0, 128).toWellFormed() },
    )
  }

  async function planMerge(call: Call, input: SwarmInput, golden: Workspace): Promise<MergeRequest | undefined> {
    const { merge_strategy: strategy, merge_target } = input
    if (strategy === undefined) {
      if (merge_target !== undefined) call.warn('merge_target: nothing is merged without merge_strategy.')
      return undefined
    }
    const target = merge_target === undefined ? golden : await workspaces.resolve(call, merge_target)
    await requireMergeable(deps, call, target)
    return { strategy, target }
  }

  type Shift = Readonly<{
    plan: SwarmPlan
    workers: readonly Worker[]
    request: MergeRequest | undefined
    report: Reporter
    cleanup: boolean
    parallel: number
  }>

  async function runAll(call: Call, { plan, workers, request, report, cleanup, parallel }: Shift): Promise<void> {
    const startedMs = clock.monotonicMs()
    const waiting = workers.values()
    const beginningOf = request && crew.createBeginning(call)
    let ended = 0
    const lane = async (): Promise<void> => {
      for (const worker of waiting) {
        if (call.signal.aborted) return
        worker.queuedMs = Math.round(clock.monotonicMs() - startedMs)
        const onUp = (): void => report.step(`${worker.task.name}: its fork is up`)
        await crew.work(call, plan, worker, { onUp, beginningOf })
        if (worker.workspace === undefined) report.step(`${worker.task.name}: it could not be forked`)
        if (!(await isNeeded(call, worker, { request, cleanup }))) await crew.dismiss(call, worker)
        report.step(`${worker.task.name}: ${endOf(worker)}; ${++ended} of ${workers.length} tasks ended`)
      }
    }
    await Promise.all(Array.from({ length: Math.min(parallel, workers.length) }, lane))
  }

  /** Whether a worker is needed after its task, until the merge. */
  async function isNeeded(
    call: Call,
    worker: Worker,
    { request, cleanup }: Pick<Shift, 'request' | 'cleanup'>,
  ): Promise<boolean> {
    if (!cleanup || worker.workspace === undefined) return true
    if (request === undefined || call.signal.aborted) return false
    if (hasSucceeded(worker)) return true
    if (await crew.hasUnsaved(call, worker, false)) worker.unmerged = 'failed'
    return worker.unmerged !== undefined
  }

  /** If the whole merge was refused, no worker's commits were merged. */
  async function keepUnmerged(call: Call, merge: MergeReport, workers: readonly Worker[]): Promise<void> {
    const failed = new Set(merge.results.filter(({ success }) => !success).map(({ source_id }) => source_id))
    const merged = workers.filter((worker) => isLeft(worker) && hasSucceeded(worker))
    await Promise.all(
      merged.map(async (worker) => {
        if (merge.error !== null || failed.has(worker.workspace!.id)) worker.unmerged = 'refused'
        else if (await crew.hasUnsaved(call, worker, true)) worker.unmerged = 'uncommitted'
      }),
    )
    for (const reason of Object.keys(unmergedReasons) as Unmerged[]) {
      const names = workers.filter(({ unmerged }) => unmerged === reason).map(({ name }) => name)
      if (names.length > 0) call.warn(`cleanup: kept, because ${unmergedReasons[reason]}: ${names.join(', ')}. ${NEXT}`)
    }
  }

  /** A worker without a commit has nothing to merge, but a worker with uncommitted work does not count as merged. */
  async function mergedTasks(call: Call, merge: MergeReport, workers: readonly Worker[]): Promise<string[]> {
    const hasCommits = new Set(merge.results.filter((one) => one.commits_applied > 0).map(({ task }) => task))
    const listed = await Promise.all(
      merge.merged_tasks.map(async (name) => {
        const worker = workers.find(({ task }) => task.name === name)
        if (worker === undefined || hasCommits.has(name)) return [name]
        const isLeftOut =
          worker.unmerged !== undefined || (isLeft(worker) && (await crew.hasUnsaved(call, worker, true)))
        return isLeftOut ? [] : [name]
      }),
    )
    return listed.flat()
  }

  return { run }
}

const unmergedReasons: Readonly<Record<Unmerged, string>> = {
  refused: 'their commits could not be merged',
  failed: 'their tasks did not succeed, and they have work that was not merged',
  uncommitted: 'they have uncommitted changes, or commits outside the merged branch',
}
const NEXT =
  'To rescue the work, commit it there with git_commit, then use workspace_merge once nothing blocks it, or git format-patch and git am; then workspace_destroy.'

const cancelled = (): AppError => new AppError('ERR_CANCELLED', 'The call was cancelled.')

function requireFork(call: Call, workers: readonly Worker[]): void {
  if (call.signal.aborted) throw cancelled()
  if (workers.some(({ workspace }) => workspace !== undefined)) return
  const first = workers[0]?.error
  throw new AppError(
    first?.code ?? 'ERR_BACKEND_FAILED',
    `None of the ${workers.length} workers could be forked. ${first?.message ?? ''}`.trim(),
    { failures: workers.map(({ task, error }) => ({ name: task.name, code: error?.code, error: error?.message })) },
  )
}

const endOf = (worker: Worker): string => {
  if (worker.error !== undefined) return 'failed'
  return worker.result?.timedOut === true ? 'ran out of time' : `exit code ${worker.result?.exitCode}`
}

function presentOf(workers: readonly Worker[]): string {
  const running = workers.filter(({ phase }) => phase === 'running')
  const ended = workers.filter(({ phase }) => phase === 'ended').length
  const line = running.find(({ lastLine }) => lastLine !== '')
  const said = line === undefined ? '' : `; ${line.task.name}: ${line.lastLine}`
  return `${ended} of ${workers.length} tasks ended, ${running.length} running${said}`
}

const taskView = ({ task, workspace, result, error, queuedMs, forkMs }: Worker) => ({
  name: task.name,
  workspace_id: workspace?.id ?? null,
  workspace_name: workspace?.name ?? null,
  success: result?.exitCode === 0 && !result.timedOut,
  exit_code: result?.exitCode ?? null,
  signal: result?.signal ?? null,
  stdout: result?.stdout.text ?? '',
  stderr: result?.stderr.text ?? '',
  stdout_bytes: result?.stdout.totalBytes ?? 0,
  stderr_bytes: result?.stderr.totalBytes ?? 0,
  truncated: result !== undefined && (result.stdout.truncated || result.stderr.truncated),
  timed_out: result?.timedOut ?? false,
  limits_hit: [...(result?.limitsHit ?? [])],
  queued_ms: queuedMs,
  fork_ms: forkMs,
  elapsed_ms: result?.durationMs ?? 0,
  error: error ?? null,
})

function answer(call: Call, plan: SwarmPlan, workers: readonly Worker[], merge: MergeReport | null, elapsedMs: number) {
  const { golden, snapshotName, swarmId } = plan
  const tasks = workers.map(taskView)
  const succeeded = workers.filter(hasSucceeded).length
  call.record({
    kind: 'swarm_ran',
    body: {
      swarm_id: swarmId,
      golden_workspace_id: golden.id,
      snapshot_name: snapshotName,
      tasks: tasks.map(({ name, workspace_id, exit_code, timed_out }) => ({
        name,
        workspace_id,
        exit_code,
        timed_out,
      })),
    },
  })
  return {
    swarm_id: swarmId,
    golden_workspace_id: golden.id,
    snapshot_name: snapshotName,
    tasks,
    merge,
    workers: workers.filter(isLeft).map(({ workspace, unmerged, notDestroyed }) => ({
      workspace_id: workspace!.id,
      name: workspace!.name,
      unmerged: unmerged !== undefined,
      error: notDestroyed ?? null,
    })),
    summary: {
      total_tasks: workers.length,
      succeeded,
      failed: workers.length - succeeded,
      timed_out: tasks.filter(({ timed_out }) => timed_out).length,
      total_elapsed_ms: elapsedMs,
      workers_destroyed: workers.filter(({ isDestroyed }) => isDestroyed).length,
    },
  }
}
