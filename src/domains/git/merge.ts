import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { Git } from './git-command.ts'
import { findCommits } from './merge-commits.ts'
import { bringCommit, readSource } from './merge-source.ts'
import { type Prepared, strategies } from './merge-strategy.ts'
import { type MergeTarget, openTarget } from './merge-target.ts'
import { moveTarget } from './move-target.ts'
import type { GitRunner, WorkspaceReference } from './ports.ts'
import { type MergeStrategy, mergeMessage } from './rules.ts'

type MergePlan = Readonly<{
  sources: readonly WorkspaceReference[]
  target: WorkspaceReference
  strategy: MergeStrategy
  path: string
  commitMessage: string | undefined
  /** The commit at which a source was forked, by the source's id; without one, the merge base. */
  forkPoints: ReadonlyMap<string, string>
}>

type SourceResult = Readonly<{
  source_id: string
  source_name: string
  success: boolean
  /** How many commits of the source are in the target because of this call. */
  commits_applied: number
  /** Their ids in the target, oldest first, within a bound. */
  commits: readonly string[]
  conflict_files: readonly string[]
  fork_point?: string
  branch?: string
  merge_commit?: string
  failed_commit?: string
  error?: string
  git_output?: string
  warning?: string
}>

export type MergeAnswer = Readonly<{
  success: boolean
  strategy: MergeStrategy
  total_commits_applied: number
  merged_sources: readonly string[]
  conflicts: readonly Readonly<{ source_id: string; error: string; files: readonly string[] }>[]
  head_before: string
  head_after: string
  results: readonly SourceResult[]
}>

type MergeDeps = Readonly<{ runner: GitRunner; gitAt(workspace: WorkspaceReference, path: string): Git }>

/**
 * Merges the sources one after the other, each whole or not at all: a source that fails leaves no trace in the target,
 * those before it stay, and those after it are tried. All merging happens in git's object store. HEAD, index and
 * working tree of the target are touched once for each source, when its result is complete. Unreferenced objects may
 * stay until git removes them, as after any abandoned merge.
 */
export async function mergeWorkspaces(call: Call, deps: MergeDeps, plan: MergePlan): Promise<MergeAnswer> {
  const target = await openTarget((path) => deps.gitAt(plan.target, path), plan.path)
  let tip = target.head
  const results: SourceResult[] = []
  for (const [index, source] of plan.sources.entries()) {
    call.progress({ progress: index, total: plan.sources.length, message: `merging ${source.name}` })
    const merged = await mergeSource(call, deps, { plan, target, tip, source, index }).catch((error: unknown) => ({
      tip,
      result: resultOfError(error, source, tip !== target.head),
    }))
    tip = merged.tip
    results.push(merged.result)
  }
  return toAnswer(plan.strategy, results, target.head, tip)
}

type SourceMerge = Readonly<{
  plan: MergePlan
  target: MergeTarget
  tip: string
  source: WorkspaceReference
  index: number
}>
type Merged = Readonly<{ tip: string; result: SourceResult }>

async function mergeSource(call: Call, deps: MergeDeps, merge: SourceMerge): Promise<Merged> {
  const { plan, target, tip, source, index } = merge
  if (call.signal.aborted) throw new AppError('ERR_CANCELLED', 'The call was cancelled before this source was merged.')
  const git = deps.gitAt(source, plan.path)
  const { head, warning } = await readSource(git)
  await bringCommit(deps.runner, git, target.git, head, `${call.id}-${index}`.replace(/[^A-Za-z0-9]/g, '-'))
  const found = await findCommits(target.git, tip, head, plan.forkPoints.get(source.id))
  const prepared =
    found.total === 0
      ? ({ kind: 'nothing' } as const)
      : await strategies[plan.strategy]({
          target,
          tip,
          source,
          found,
          message: mergeMessage(source.name, plan.sources.length, plan.commitMessage),
          onCommit: (done, total) =>
            call.progress({
              progress: index + done / total,
              total: plan.sources.length,
              message: `merging ${source.name}: commit ${done} of ${total}`,
            }),
        })
  const facts = { fork_point: found.forkPoint, ...(warning === undefined ? {} : { warning }) }
  const merged = await settle(merge, prepared)
  return { tip: merged.tip, result: { ...merged.result, ...facts } }
}

async function settle({ target, tip, source }: SourceMerge, prepared: Prepared): Promise<Merged> {
  const names = { source_id: source.id, source_name: source.name }
  if (prepared.kind === 'nothing') {
    return { tip, result: { ...names, success: true, commits_applied: 0, commits: [], conflict_files: [] } }
  }
  if (prepared.kind === 'conflict') {
    const { files, failedCommit } = prepared
    const where = failedCommit === undefined ? '' : ` at commit ${failedCommit}`
    const error = `Conflict in ${files.length} ${files.length === 1 ? 'file' : 'files'}${where}.`
    const failed = failedCommit === undefined ? {} : { failed_commit: failedCommit }
    return { tip, result: { ...failure(source, error, files), ...failed } }
  }
  const moved = await moveTarget(target.git, prepared.move)
  if (!moved.moved) return { tip, result: failure(source, moved.error, moved.files) }
  const result = {
    ...names,
    success: true,
    commits_applied: prepared.count,
    commits: prepared.commits,
    conflict_files: [],
    ...(prepared.branch === undefined ? {} : { branch: prepared.branch }),
    ...(prepared.mergeCommit === undefined ? {} : { merge_commit: prepared.mergeCommit }),
  }
  return { tip: prepared.move.to, result }
}

const failure = (source: WorkspaceReference, error: string, files: readonly string[]): SourceResult => ({
  source_id: source.id,
  source_name: source.name,
  success: false,
  commits_applied: 0,
  commits: [],
  conflict_files: files.slice(0, limits.gitConflictFilesMax),
  error,
})

/** A cancelled call that has changed nothing is simply cancelled; one that has changed something must report it. */
function resultOfError(error: unknown, source: WorkspaceReference, hasMerged: boolean): SourceResult {
  if (!(error instanceof AppError) || (error.code === 'ERR_CANCELLED' && !hasMerged)) throw error
  const said = error.details['git_output']
  return { ...failure(source, error.message, []), ...(typeof said === 'string' ? { git_output: said } : {}) }
}

function toAnswer(
  strategy: MergeStrategy,
  results: readonly SourceResult[],
  headBefore: string,
  headAfter: string,
): MergeAnswer {
  const merged = results.filter(({ success }) => success)
  const failed = results.filter(({ success }) => !success)
  return {
    success: failed.length === 0,
    strategy,
    total_commits_applied: merged.reduce((sum, { commits_applied }) => sum + commits_applied, 0),
    merged_sources: merged.map(({ source_id }) => source_id),
    conflicts: failed.map(({ source_id, error = '', conflict_files }) => ({ source_id, error, files: conflict_files })),
    head_before: headBefore,
    head_after: headAfter,
    results,
  }
}
