import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { MergeAnswer } from '../git/merge.ts'
import type { MergeStrategy } from '../git/rules.ts'
import { requireRunning } from '../workspaces/core.ts'
import type { Workspace } from '../workspaces/ports.ts'
import { quoted } from '../workspaces/rules.ts'
import { type Reporter, viewOf } from './call-view.ts'
import type { SwarmDeps } from './ports.ts'
import { WORKSPACE_FOLDER } from './rules.ts'
import { type Failure, hasSucceeded, isLeft, type Worker } from './workers.ts'

export type MergeRequest = Readonly<{ strategy: MergeStrategy; target: Workspace }>

/** Refuses before any work what the merge would refuse after it. */
export async function requireMergeable({ git }: Pick<SwarmDeps, 'git'>, call: Call, target: Workspace): Promise<void> {
  requireRunning(target)
  const found = await git.status(call, { workspace_id: target.id, path: WORKSPACE_FOLDER }).catch((error: unknown) => {
    if (error instanceof AppError && ['ERR_NOT_A_REPOSITORY', 'ERR_NOT_FOUND'].includes(error.code)) {
      throw refusal('ERR_NOT_A_REPOSITORY', target, 'has no git repository there; git_clone makes one')
    }
    throw error
  })
  if (found.commit_sha === null)
    throw refusal('ERR_GIT_FAILED', target, 'has a repository without commits; commit first')
  const changed = found.staged.length + found.modified.length + found.conflicted.length
  if (changed > 0) throw refusal('ERR_WORKTREE_DIRTY', target, 'has uncommitted changes; use git_commit, or undo them')
}

const refusal = (
  code: 'ERR_NOT_A_REPOSITORY' | 'ERR_GIT_FAILED' | 'ERR_WORKTREE_DIRTY',
  target: Workspace,
  what: string,
): AppError =>
  new AppError(code, `merge_target: ${WORKSPACE_FOLDER} of ${quoted(target.name)} ${what}`, {
    field: 'merge_target',
    workspace_id: target.id,
    path: WORKSPACE_FOLDER,
  })

export type MergeReport = ReturnType<typeof reportOf>

/** Merges the commits of successful workers into the target, in the order of the tasks. A refusal is reported as well. */
export async function mergeWorkers(
  deps: Pick<SwarmDeps, 'git'>,
  call: Call,
  { request, workers, report }: Readonly<{ request: MergeRequest; workers: readonly Worker[]; report: Reporter }>,
  failureOf: (error: unknown) => Failure,
): Promise<MergeReport> {
  const sources = workers.filter((worker) => hasSucceeded(worker) && isLeft(worker))
  if (sources.length === 0) {
    return reportOf(request, workers, undefined, {
      code: 'ERR_WORKSPACE_STATE',
      message: 'No task succeeded, so there is nothing to merge.',
    })
  }
  const quiet = viewOf(call, { progress: ({ message }) => report.say(message ?? 'merging') })
  try {
    const answer = await deps.git.merge(quiet, {
      source_workspaces: sources.map(({ workspace }) => workspace!.id),
      target_workspace: request.target.id,
      strategy: request.strategy,
      path: WORKSPACE_FOLDER,
    })
    return reportOf(request, workers, boundedAnswer(answer), undefined)
  } catch (error) {
    return reportOf(request, workers, undefined, failureOf(error))
  }
}

function reportOf(
  { strategy, target }: MergeRequest,
  workers: readonly Worker[],
  answer: MergeAnswer | undefined,
  error: Failure | undefined,
) {
  const taskOf = (id: string): string => workers.find(({ workspace }) => workspace?.id === id)?.task.name ?? ''
  return {
    strategy,
    target_workspace_id: target.id,
    target_workspace_name: target.name,
    success: answer?.success ?? false,
    total_commits_applied: answer?.total_commits_applied ?? 0,
    merged_tasks: (answer?.merged_sources ?? []).map(taskOf),
    head_before: answer?.head_before ?? null,
    head_after: answer?.head_after ?? null,
    results: (answer?.results ?? []).map((result) => ({ task: taskOf(result.source_id), ...result })),
    error: error ?? null,
  }
}

const REPORT_BYTES_MAX = 1024 * 1024
const LIST_ITEMS = 10

/** Bounds the answer; of long lists the beginning is enough to continue with. */
export function boundedAnswer(answer: MergeAnswer): MergeAnswer {
  if (Buffer.byteLength(JSON.stringify(answer.results)) <= REPORT_BYTES_MAX) return answer
  return {
    ...answer,
    results: answer.results.map((result) => ({
      ...result,
      commits: result.commits.slice(-LIST_ITEMS),
      conflict_files: result.conflict_files.slice(0, LIST_ITEMS),
    })),
  }
}
