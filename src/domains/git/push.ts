import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { currentBranch } from './commit.ts'
import { type Git, gitFailed } from './git-command.ts'
import { networkHint } from './network-hint.ts'
import { branchName, remoteName } from './rules.ts'

export type PushInput = Readonly<{
  workspace_id: string
  path?: string | undefined
  remote?: string | undefined
  branch?: string | undefined
  force?: boolean | undefined
  set_upstream?: boolean | undefined
  timeout_secs?: number | undefined
}>

export type PushAnswer = Readonly<{ remote: string; branch: string; success: true; output: string }>

/** Pushes a branch to the branch of the same name. */
export async function push(call: Call, git: Git, input: PushInput): Promise<PushAnswer> {
  const remote = remoteName(input.remote ?? 'origin')
  const branch = input.branch === undefined ? await requireBranch(git) : branchName(input.branch)
  await requireRemote(git, remote)
  const args = [
    'push',
    '--no-progress',
    ...(input.force === true ? ['--force'] : []),
    ...(input.set_upstream === true ? ['--set-upstream'] : []),
    '--',
    remote,
    `refs/heads/${branch}:refs/heads/${branch}`,
  ]
  const timeoutMs = (input.timeout_secs ?? limits.gitPushTimeoutDefaultSecs) * 1000
  const output = await git.run(args, { timeoutMs })
  if (output.exitCode !== 0) throw gitFailed('push', output, networkHint(output.stderr))
  call.record({ kind: 'git_pushed', body: { workspace_id: git.workspace.id, path: git.path, remote, branch } })
  const said = [output.stderr, output.stdout.toString('utf8').trim()].filter((text) => text !== '').join('\n')
  return { remote, branch, success: true, output: said }
}

async function requireBranch(git: Git): Promise<string> {
  const branch = await currentBranch(git)
  if (branch !== undefined) return branch
  throw new AppError('ERR_INVALID_INPUT', 'branch: is required, because HEAD is detached in this repository', {
    field: 'branch',
  })
}

/** Git would interpret a name that is not a remote as the path of a repository. */
async function requireRemote(git: Git, remote: string): Promise<void> {
  const found = await git.run(['remote', 'get-url', '--push', '--', remote])
  if (found.exitCode === 0) return
  throw new AppError(
    'ERR_NOT_FOUND',
    'remote: this repository has no remote of that name; add it with git remote add',
    {
      field: 'remote',
      remote,
    },
  )
}
