import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { type Git, gitFailed } from './git-command.ts'

/** What a source has that the target lacks. */
export type SourceCommits = Readonly<{
  head: string
  /** Where the histories diverge: the recorded commit, or else the merge base. */
  forkPoint: string
  /** Whether the fork point is still in the target's history; false after a rewrite. */
  isForkPointInTarget: boolean
  total: number
}>

/**
 * All commits are in the repository of `git` already. Without a recorded fork point, unrelated histories are refused.
 */
export async function findCommits(
  git: Git,
  tip: string,
  head: string,
  recorded: string | undefined,
): Promise<SourceCommits> {
  const forkPoint = recorded ?? (await mergeBase(git, tip, head))
  if (forkPoint === undefined) {
    throw new AppError(
      'ERR_GIT_FAILED',
      'Source and target have no common commit: the source is not a fork of the target.',
    )
  }
  if (recorded !== undefined && !(await isAncestor(git, recorded, head))) {
    throw new AppError('ERR_GIT_FAILED', 'The recorded fork point is not in the history of the source.')
  }
  const isForkPointInTarget = recorded === undefined || (await isAncestor(git, recorded, tip))
  const total = Number(await git.plumbing.text(['rev-list', '--count', head, `^${tip}`, `^${forkPoint}`]))
  return { head, forkPoint, isForkPointInTarget, total }
}

/**
 * The commits to replay, oldest first, without those whose patch the target already has. A history with merges is
 * followed along first parents, so that what a merge resolved is not lost: each step is a change of the main line.
 */
export async function commitsToReplay(git: Git, tip: string, found: SourceCommits): Promise<readonly string[]> {
  const { head, forkPoint } = found
  const merges = await git.plumbing.text(['rev-list', '--count', '--merges', head, `^${tip}`, `^${forkPoint}`])
  const args =
    merges === '0'
      ? ['--topo-order', '--cherry-pick', '--right-only', `${tip}...${head}`, `^${forkPoint}`]
      : ['--topo-order', '--first-parent', head, `^${tip}`, `^${forkPoint}`]
  const text = await git.plumbing.text(['rev-list', '--reverse', ...args], { timeoutMs: limits.gitLongTimeoutMs })
  const commits = text.split('\n').filter((id) => id !== '')
  if (commits.length <= limits.gitMergeCommitsMax) return commits
  const rule = `at most ${limits.gitMergeCommitsMax} are replayed one by one; use branch-per-source`
  throw new AppError('ERR_TOO_LARGE', `The source has ${commits.length} commits; ${rule}.`)
}

/** Oldest first; if there are too many to list, the newest ones. */
export async function commitsBetween(git: Git, tip: string, found: SourceCommits): Promise<readonly string[]> {
  const bound = `--max-count=${limits.gitMergeCommitsMax}`
  const args = ['rev-list', '--reverse', '--topo-order', bound, found.head, `^${tip}`, `^${found.forkPoint}`]
  return (await git.plumbing.text(args)).split('\n').filter((id) => id !== '')
}

async function mergeBase(git: Git, one: string, other: string): Promise<string | undefined> {
  const output = await git.plumbing.run(['merge-base', one, other])
  if (output.exitCode > 1) throw gitFailed('merge-base', output)
  return output.exitCode === 0 ? output.stdout.toString('utf8').trim() : undefined
}

/** A commit that does not exist is no ancestor either. */
export async function isAncestor(git: Git, ancestor: string, of: string): Promise<boolean> {
  return (await git.plumbing.run(['merge-base', '--is-ancestor', ancestor, of])).exitCode === 0
}
