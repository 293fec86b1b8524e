import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { defaultIdentity } from '../workspaces/backend.ts'
import { type Git, gitFailed } from './git-command.ts'
import { commitMessage, type Person, personOf } from './rules.ts'

export type CommitInput = Readonly<{
  workspace_id: string
  path?: string | undefined
  message: string
  add_all?: boolean | undefined
  author_name?: string | undefined
  author_email?: string | undefined
}>

export type CommitAnswer = Readonly<{
  status: 'committed' | 'nothing_to_commit'
  message?: string
  commit_sha?: string
  short_sha?: string
  branch?: string
  summary?: string
}>

export const DETACHED = '(detached HEAD)'

/** The repository's hooks run, as they would for a person. */
export async function commit(call: Call, git: Git, input: CommitInput): Promise<CommitAnswer> {
  const message = commitMessage(input.message, 'message')
  const author = personOf(input.author_name, input.author_email)
  if (input.add_all ?? true) await git.text(['add', '--all'], { timeoutMs: limits.gitLongTimeoutMs })
  if (await hasNothingStaged(git)) {
    const advice =
      (input.add_all ?? true) ? 'Nothing changed since the last commit.' : 'Nothing is staged; set add_all.'
    return { status: 'nothing_to_commit', message: advice }
  }
  const output = await git.run(['commit', '--quiet', '--cleanup=whitespace', '--file=-'], {
    stdin: message,
    config: await missingIdentity(git, author),
    env: author === undefined ? {} : { GIT_AUTHOR_NAME: author.name, GIT_AUTHOR_EMAIL: author.email },
    timeoutMs: limits.gitLongTimeoutMs,
  })
  if (output.exitCode !== 0) throw gitFailed('commit', output)
  const [commitId = '', ...subject] = (await git.text(['log', '-1', '--no-show-signature', '--format=%H%n%s'])).split(
    '\n',
  )
  const branch = await currentBranch(git)
  call.record({ kind: 'git_committed', body: { workspace_id: git.workspace.id, path: git.path, commit_sha: commitId } })
  return {
    status: 'committed',
    commit_sha: commitId,
    short_sha: commitId.slice(0, 7),
    branch: branch ?? DETACHED,
    summary: subject.join('\n'),
  }
}

/** A merge in progress may be concluded without a further change. */
async function hasNothingStaged(git: Git): Promise<boolean> {
  const staged = await git.run(['diff', '--cached', '--quiet', '--no-ext-diff'])
  if (staged.exitCode > 1) throw gitFailed('diff', staged)
  if (staged.exitCode === 1) return false
  const merging = await git.run(['rev-parse', '--verify', '--quiet', 'MERGE_HEAD'])
  return merging.exitCode !== 0
}

/** Undefined when HEAD is detached. */
export async function currentBranch(git: Git): Promise<string | undefined> {
  const output = await git.run(['symbolic-ref', '--quiet', '--short', 'HEAD'])
  return output.exitCode === 0 ? output.stdout.toString('utf8').trim() : undefined
}

/** Settings for the parts of an identity that are not configured in the workspace. */
export async function missingIdentity(git: Git, fallback: Person = defaultIdentity): Promise<string[]> {
  const found = await git.run(['config', '--null', '--name-only', '--get-regexp', '^user\\.(name|email)$'])
  const configured = new Set(found.stdout.toString('utf8').split('\0'))
  return [
    ...(configured.has('user.name') ? [] : [`user.name=${fallback.name}`]),
    ...(configured.has('user.email') ? [] : [`user.email=${fallback.email}`]),
  ]
}
