import { toByteText } from './commit-object.ts'
import { commitsBetween, commitsToReplay, isAncestor, type SourceCommits } from './merge-commits.ts'
import { mergeTrees, type Replay, replay, writeCommit } from './merge-replay.ts'
import type { MergeTarget } from './merge-target.ts'
import type { Move } from './move-target.ts'
import type { WorkspaceReference } from './ports.ts'
import { type MergeStrategy, sourceBranch } from './rules.ts'

type StrategyInput = Readonly<{
  target: MergeTarget
  /** The state of the target: its head and the sources merged before this one. */
  tip: string
  source: WorkspaceReference
  found: SourceCommits
  /** Of the merge commit, for the strategy that creates one. */
  message: string
  onCommit(done: number, total: number): void
}>

/** The objects that a strategy created. `move` updates the target to them. */
export type Prepared = Readonly<
  | { kind: 'nothing' }
  | { kind: 'conflict'; files: readonly string[]; failedCommit?: string }
  | { kind: 'ready'; move: Move; count: number; commits: readonly string[]; branch?: string; mergeCommit?: string }
>

/**
 * `sequential` replays the commits and keeps those that fit unchanged; `cherry-pick` creates every commit anew and
 * names the original in it; `branch-per-source` keeps the source's history on a branch and merges that.
 */
export const strategies: Readonly<Record<MergeStrategy, (input: StrategyInput) => Promise<Prepared>>> = {
  sequential: (input) => replayed(input, false),
  'cherry-pick': (input) => replayed(input, true),
  'branch-per-source': branched,
}

async function replayed(input: StrategyInput, markOrigin: boolean): Promise<Prepared> {
  const made = await replaySource(input, markOrigin)
  if (made.tip === undefined) return toConflict(made)
  if (made.created.length === 0) return { kind: 'nothing' }
  const move = { from: input.tip, to: made.tip }
  return { kind: 'ready', move, count: made.created.length, commits: made.created }
}

async function replaySource(input: StrategyInput, markOrigin: boolean): Promise<Replay> {
  const { target, tip, found, onCommit } = input
  const commits = await commitsToReplay(target.git, tip, found)
  return replay(target.git, {
    onto: tip,
    commits,
    committer: target.committer,
    markOrigin,
    onCommit: (done) => onCommit(done, commits.length),
  })
}

const toConflict = ({ failedCommit, conflicts }: Extract<Replay, { tip: undefined }>): Prepared => ({
  kind: 'conflict',
  files: conflicts,
  failedCommit,
})

async function branched(input: StrategyInput): Promise<Prepared> {
  const { target, tip, found } = input
  const side = await sideBranch(input)
  if ('kind' in side) return side
  const { tree, conflicts } = await mergeTrees(target.git, tip, side.head)
  if (conflicts.length > 0) return { kind: 'conflict', files: conflicts }
  const mergeCommit = await writeCommit(target.git, {
    tree,
    parents: [tip, side.head],
    author: target.author,
    committer: target.committer,
    encoding: undefined,
    message: toByteText(input.message),
  })
  const branch = await freeBranch(input, side.head)
  const ref = { ref: `refs/heads/${branch.name}`, to: side.head, from: branch.at }
  const move = { from: tip, to: mergeCommit, branch: ref }
  const count = side.created?.length ?? found.total
  return { kind: 'ready', move, count, commits: side.commits, branch: branch.name, mergeCommit }
}

type SideBranch = Readonly<{ head: string; commits: readonly string[]; created?: readonly string[] }>

/** The source's own history; if the target's was rewritten since the fork, its commits replayed onto the target. */
async function sideBranch(input: StrategyInput): Promise<SideBranch | Prepared> {
  const { target, tip, found } = input
  if (found.isForkPointInTarget) return { head: found.head, commits: await commitsBetween(target.git, tip, found) }
  const made = await replaySource(input, false)
  if (made.tip === undefined) return toConflict(made)
  if (made.created.length === 0) return { kind: 'nothing' }
  return { head: made.tip, commits: made.created, created: made.created }
}

/** A branch of an earlier merge is continued; a name that means something else gets a number. */
async function freeBranch(
  { target, source }: StrategyInput,
  head: string,
): Promise<Readonly<{ name: string; at: string | undefined }>> {
  const branch = sourceBranch(source)
  for (let number = 1; ; number++) {
    const name = number === 1 ? branch : `${branch}-${number}`
    const ref = `refs/heads/${name}`
    const present = await target.git.plumbing.run(['rev-parse', '--verify', '--quiet', `${ref}^{commit}`])
    if (present.exitCode !== 0) return { name, at: undefined }
    const at = present.stdout.toString('utf8').trim()
    if (ref !== target.headRef && (await isAncestor(target.git, at, head))) return { name, at }
  }
}
