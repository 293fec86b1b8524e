import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { missingIdentity } from './commit.ts'
import { toByteText } from './commit-object.ts'
import { type Git, gitFailed } from './git-command.ts'
import { readStatus } from './inspect.ts'

/** The repository that receives the commits, as it was when the merge started. */
export type MergeTarget = Readonly<{
  /** At the top of the working tree. */
  git: Git
  head: string
  /** Full name of the branch that HEAD is on; undefined when HEAD is detached. */
  headRef: string | undefined
  /** `name <email> time zone`, one character for each byte, for the commits that the merge creates. */
  author: string
  committer: string
}>

const GIT_AT_LEAST = [2, 38] as const

/**
 * Refuses what a merge could destroy: uncommitted changes, and a git operation in progress. `gitAt` works in a
 * directory of the target.
 */
export async function openTarget(gitAt: (path: string) => Git, path: string): Promise<MergeTarget> {
  const top = await gitAt(path).run(['rev-parse', '--show-toplevel'])
  if (top.exitCode !== 0) throw gitFailed('rev-parse', top, 'target_workspace: its repository has no working tree')
  const git = gitAt(top.stdout.toString('utf8').replace(/\n$/, ''))
  await requireVersion(git)
  const head = await headCommit(git)
  if (head === undefined) {
    throw new AppError('ERR_GIT_FAILED', 'target_workspace: its repository has no commits to merge into; commit first.')
  }
  await requireNothingUnderWay(git)
  const { found } = await readStatus(git, 'no')
  const changed = [...new Set([...found.conflicted, ...found.staged, ...found.modified])]
  if (changed.length > 0) {
    const rule = `has uncommitted changes in ${changed.length} ${changed.length === 1 ? 'file' : 'files'}`
    throw new AppError('ERR_WORKTREE_DIRTY', `target_workspace: ${rule}; use git_commit first, or undo them`, {
      field: 'target_workspace',
      files: changed.slice(0, limits.gitConflictFilesMax),
    })
  }
  const config = await missingIdentity(git)
  const identity = async (name: string): Promise<string> => toByteText(await git.text(['var', name], { config }))
  const ref = await git.run(['symbolic-ref', '--quiet', 'HEAD'])
  return {
    git,
    head,
    headRef: ref.exitCode === 0 ? ref.stdout.toString('utf8').trim() : undefined,
    author: await identity('GIT_AUTHOR_IDENT'),
    committer: await identity('GIT_COMMITTER_IDENT'),
  }
}

export async function headCommit(git: Git): Promise<string | undefined> {
  const output = await git.run(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'])
  return output.exitCode === 0 ? output.stdout.toString('utf8').trim() : undefined
}

/** Merging without a working tree needs `git merge-tree --write-tree`, which older versions lack. */
async function requireVersion(git: Git): Promise<void> {
  const text = await git.text(['version'])
  const [, major = '0', minor = '0'] = /(\d+)\.(\d+)/.exec(text) ?? []
  const [requiredMajor, requiredMinor] = GIT_AT_LEAST
  if (Number(major) > requiredMajor || (Number(major) === requiredMajor && Number(minor) >= requiredMinor)) return
  const rule = `needs git ${GIT_AT_LEAST.join('.')} or newer, and has ${major}.${minor}`
  throw new AppError('ERR_GIT_FAILED', `target_workspace: ${rule}; use an image with a newer git.`)
}

const operations: Readonly<Record<string, string>> = {
  MERGE_HEAD: 'merge',
  CHERRY_PICK_HEAD: 'cherry-pick',
  REVERT_HEAD: 'revert',
  'rebase-merge': 'rebase',
  'rebase-apply': 'rebase',
}

async function requireNothingUnderWay(git: Git): Promise<void> {
  const names = Object.keys(operations)
  const args = ['rev-parse', '--path-format=absolute', ...names.flatMap((name) => ['--git-path', name])]
  const paths = (await git.text(args)).split('\n')
  const present = await git.program(['ls', '-d', '--', ...paths])
  const found = new Set(present.stdout.toString('utf8').split('\n'))
  const name = names.find((_, index) => found.has(paths[index]!))
  if (name === undefined) return
  const message = `target_workspace: a ${operations[name]} is in progress in its repository; finish or abort it first`
  throw new AppError('ERR_WORKTREE_DIRTY', message, { field: 'target_workspace' })
}
