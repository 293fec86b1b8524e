import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { type CloneAnswer, type CloneInput, clone } from './clone.ts'
import { type CommitAnswer, type CommitInput, commit } from './commit.ts'
import { createGit, type Git } from './git-command.ts'
import {
  type DiffAnswer,
  type DiffInput,
  diff,
  hasUnsaved,
  type StatusAnswer,
  type StatusInput,
  status,
  type UnsavedInput,
} from './inspect.ts'
import { type MergeAnswer, mergeWorkspaces } from './merge.ts'
import type { GitRunner, WorkspaceAccess, WorkspaceReference } from './ports.ts'
import { type PushAnswer, type PushInput, push } from './push.ts'
import { redactAll } from './redact.ts'
import { commitMessage, isCommitId, type MergeStrategy, workspacePath } from './rules.ts'

export type MergeInput = Readonly<{
  source_workspaces: readonly string[]
  target_workspace: string
  strategy: MergeStrategy
  path?: string | undefined
  commit_message?: string | undefined
}>

export type MergeOptions = Readonly<{
  /** The commit at which each source was forked, by the source's id, when it was recorded. */
  forkPoints?: ReadonlyMap<string, string>
}>

/**
 * Git inside workspaces. Everything runs in its workspace, with the workspace's own programs; the server starts no git and holds
 * no repository. Secrets are redacted from every text. Paths are absolute inside the workspace.
 */
export type GitService = Readonly<{
  clone(call: Call, input: CloneInput): Promise<CloneAnswer>
  /** ERR_NOT_A_REPOSITORY outside a repository, as for all that follow. */
  status(call: Call, input: StatusInput): Promise<StatusAnswer>
  /** Whether destroying the workspace would lose work in its repository. */
  hasUnsaved(call: Call, input: UnsavedInput): Promise<boolean>
  commit(call: Call, input: CommitInput): Promise<CommitAnswer>
  push(call: Call, input: PushInput): Promise<PushAnswer>
  diff(call: Call, input: DiffInput): Promise<DiffAnswer>
  /**
   * Each source whole or not at all, in order; a failed one is reported in the answer and changes nothing. ERR_WORKTREE_DIRTY
   * before anything is done if the target has uncommitted changes.
   */
  merge(call: Call, input: MergeInput, options?: MergeOptions): Promise<MergeAnswer>
}>

type GitServiceDeps = Readonly<{ runner: GitRunner; access: WorkspaceAccess }>

export function createGitService({ runner, access }: GitServiceDeps): GitService {
  const gitFor = async (
    call: Call,
    input: Readonly<{ workspace_id: string; path?: string | undefined }>,
  ): Promise<Git> => {
    const path = workspacePath(input.path)
    const workspace = await access.resolve(call, input.workspace_id)
    return createGit(runner, workspace, path, call.signal)
  }

  async function cloneInto(call: Call, input: CloneInput): Promise<CloneAnswer> {
    const repository = await gitFor(call, input)
    const root = createGit(runner, repository.workspace, '/', call.signal)
    const answer = redactAll(await clone(call, root, repository, input))
    const { path, url, commit_sha } = answer
    call.record({ kind: 'git_cloned', body: { workspace_id: repository.workspace.id, path, url, commit_sha } })
    return answer
  }

  async function merge(call: Call, input: MergeInput, options: MergeOptions = {}): Promise<MergeAnswer> {
    const path = workspacePath(input.path)
    const message = input.commit_message
    const plan = {
      ...(await resolveMerge(call, input)),
      strategy: input.strategy,
      path,
      commitMessage: message === undefined ? undefined : commitMessage(message, 'commit_message'),
      forkPoints: requireCommitIds(options.forkPoints ?? new Map()),
    }
    if (message !== undefined && input.strategy !== 'branch-per-source') {
      call.warn('commit_message: only branch-per-source makes a merge commit; the commits keep their own messages.')
    }
    const gitAt = (workspace: WorkspaceReference, at: string): Git => createGit(runner, workspace, at, call.signal)
    const answer = redactAll(await mergeWorkspaces(call, { runner, gitAt }, plan))
    const { results, strategy, head_before, head_after } = answer
    const sources = results.map(({ source_id, success, commits_applied }) => ({ source_id, success, commits_applied }))
    const workspace_id = plan.target.id
    call.record({ kind: 'workspace_merged', body: { workspace_id, path, strategy, head_before, head_after, sources } })
    return answer
  }

  /** All refusals come before the first source is touched. */
  async function resolveMerge(call: Call, input: MergeInput) {
    const target = await access.resolve(call, input.target_workspace)
    const sources: WorkspaceReference[] = []
    for (const reference of input.source_workspaces) {
      const source = await access.resolve(call, reference)
      if (source.id === target.id) throw badSource('must not contain the target itself')
      if (sources.some(({ id }) => id === source.id)) throw badSource('must not name a workspace twice')
      sources.push(source)
    }
    return { target, sources }
  }

  return {
    clone: cloneInto,
    status: async (call, input) => redactAll(await status(await gitFor(call, input))),
    hasUnsaved: async (call, input) => await hasUnsaved(await gitFor(call, input), input),
    commit: async (call, input) => redactAll(await commit(call, await gitFor(call, input), input)),
    push: async (call, input) => redactAll(await push(call, await gitFor(call, input), input)),
    diff: async (call, input) => redactAll(await diff(call, await gitFor(call, input), input)),
    merge,
  }
}

const badSource = (rule: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `source_workspaces: ${rule}`, { field: 'source_workspaces', rule })

function requireCommitIds(forkPoints: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  for (const commitId of forkPoints.values()) {
    if (!isCommitId(commitId)) throw new AppError('ERR_INVALID_INPUT', 'forkPoints: must be full commit ids')
  }
  return forkPoints
}
