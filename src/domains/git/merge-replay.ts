import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { type CommitObject, formatCommit, parseBatch, parseCommit, withOrigin } from './commit-object.ts'
import { type Git, gitFailed } from './git-command.ts'

type TreeMerge = Readonly<{ tree: string; conflicts: readonly string[] }>

/** Three-way merge of two commits from their merge base, in the object store only; it detects renames. */
export async function mergeTrees(git: Git, ours: string, theirs: string): Promise<TreeMerge> {
  const args = ['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages', '--end-of-options', ours, theirs]
  const output = await git.plumbing.run(args, { timeoutMs: limits.gitLongTimeoutMs })
  if (output.exitCode > 1) throw gitFailed('merge-tree', output)
  const [tree = '', ...conflicts] = output.stdout.toString('utf8').split('\0')
  return { tree, conflicts: output.exitCode === 0 ? [] : conflicts.filter((path) => path !== '') }
}

export async function writeCommit(git: Git, commit: CommitObject & Readonly<{ committer: string }>): Promise<string> {
  return git.plumbing.text(['hash-object', '-t', 'commit', '-w', '--stdin'], { stdin: formatCommit(commit) })
}

/** Commits by id, in parts, so that no answer exceeds its bound. */
async function readCommits(git: Git, ids: readonly string[]): Promise<Map<string, CommitObject>> {
  const commits = new Map<string, CommitObject>()
  for (let at = 0; at < ids.length; at += COMMITS_PER_COMMAND) {
    const part = ids.slice(at, at + COMMITS_PER_COMMAND)
    const output = await git.plumbing.run(['cat-file', '--batch'], { stdin: part.map((id) => `${id}\n`).join('') })
    if (output.exitCode !== 0 || output.truncated) throw gitFailed('cat-file', output)
    for (const [id, bytes] of parseBatch(output.stdout)) commits.set(id, parseCommit(bytes))
  }
  return commits
}
const COMMITS_PER_COMMAND = 100

type ReplayPlan = Readonly<{
  onto: string
  /** Oldest first. Of a merge commit, what it changed against its first parent is replayed. */
  commits: readonly string[]
  committer: string
  /** Adds the line that names the original commit, so every commit is created anew. */
  markOrigin: boolean
  onCommit(done: number): void
}>

export type Replay = Readonly<
  { tip: string; created: readonly string[] } | { tip: undefined; failedCommit: string; conflicts: readonly string[] }
>

/**
 * Replays commits onto another one, with their authors and messages, without touching index or working tree. A commit
 * that already fits is used unchanged, and one whose changes exist already is left out.
 */
export async function replay(git: Git, plan: ReplayPlan): Promise<Replay> {
  const known = await readCommits(git, [plan.onto, ...plan.commits])
  let tip = plan.onto
  let tree = commitIn(known, tip).tree
  const created: string[] = []
  for (const [index, id] of plan.commits.entries()) {
    const commit = commitIn(known, id)
    if (!plan.markOrigin && commit.parents[0] === tip) {
      tip = id
      tree = commit.tree
      created.push(id)
    } else {
      const merged = await pick(git, { tree, id, commit, committer: plan.committer })
      if (merged.conflicts.length > 0) return { tip: undefined, failedCommit: id, conflicts: merged.conflicts }
      if (merged.tree !== tree) {
        const message = plan.markOrigin ? withOrigin(commit.message, id) : commit.message
        const { author, encoding } = commit
        const parents = [tip]
        tree = merged.tree
        tip = await writeCommit(git, { tree, parents, author, encoding, message, committer: plan.committer })
        created.push(tip)
      }
    }
    plan.onCommit(index + 1)
  }
  return { tip, created }
}

const commitIn = (known: ReadonlyMap<string, CommitObject>, id: string): CommitObject => {
  const commit = known.get(id)
  if (commit === undefined) throw new AppError('ERR_GIT_FAILED', `Commit ${id} is missing; the history may be shallow.`)
  return commit
}

type Pick = Readonly<{ tree: string; id: string; commit: CommitObject; committer: string }>

/**
 * Merges the changes of a commit into a tree. The merge base must be the commit's parent, so a commit with our tree is
 * created on top of that parent and the two are merged; nothing refers to it afterwards. The parent of a first commit
 * is the empty tree.
 */
async function pick(git: Git, { tree, id, commit, committer }: Pick): Promise<TreeMerge> {
  const standIn = (content: string, parents: readonly string[]): Promise<string> =>
    writeCommit(git, { tree: content, parents, author: committer, committer, encoding: undefined, message: '' })
  const [parent] = commit.parents
  if (parent !== undefined) return mergeTrees(git, await standIn(tree, [parent]), id)
  const nothing = await git.plumbing.text(['hash-object', '-t', 'tree', '-w', '--stdin'], { stdin: '' })
  const root = await standIn(nothing, [])
  return mergeTrees(git, await standIn(tree, [root]), await standIn(commit.tree, [root]))
}
