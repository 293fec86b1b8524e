import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { gitParams } from './git-params.ts'

const strategies = ['sequential', 'branch-per-source', 'cherry-pick'] as const
const files = z.array(z.string()).describe('Files in conflict, or in the way.')

export default defineTool({
  name: 'workspace_merge',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Merge workspaces',
  description:
    'Bring the commits that source workspaces made since the fork point into the repository of a target workspace. Each source is merged whole or not at all: one that fails leaves no trace, and the others are still merged. Uncommitted changes are not merged; use git_commit first.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  fails: { kind: 'conflict', field: 'success', is: false },
  long: true,
  paths: ['path'],
  input: z.strictObject({
    source_workspaces: z
      .array(gitParams.workspaceId)
      .min(1)
      .max(limits.gitMergeSourcesMax)
      .describe('Ids or names of the sources, in the order of merging.'),
    target_workspace: gitParams.workspaceId.describe('Id or name of the target; it must have no uncommitted changes.'),
    strategy: z
      .enum(strategies)
      .describe('Replay commits in order; merge a branch for each source; or replay and note where each comes from.'),
    path: gitParams.defaultPath.describe('Directory of the repository, the same in all workspaces.'),
    commit_message: z
      .string()
      .min(1)
      .max(limits.gitMessageCharsMax)
      .optional()
      .describe('Message of the merge commit that branch-per-source makes.'),
  }),
  output: z.strictObject({
    success: z.boolean().describe('Whether every source was merged.'),
    strategy: z.enum(strategies),
    total_commits_applied: z.int(),
    merged_sources: z.array(z.string()).describe('Ids of the sources that are in the target now.'),
    conflicts: z
      .array(z.strictObject({ source_id: z.string(), error: z.string(), files }))
      .describe('The sources that failed; the target is as if they had not been named.'),
    head_before: z.string(),
    head_after: z.string(),
    results: z.array(
      z.strictObject({
        source_id: z.string(),
        source_name: z.string(),
        success: z.boolean(),
        commits_applied: z.int(),
        commits: z.array(z.string()).describe('Their ids in the target, oldest first; of very many, the newest.'),
        conflict_files: files,
        fork_point: z.string().optional().describe('The last commit that both had.'),
        branch: z.string().optional(),
        merge_commit: z.string().optional(),
        failed_commit: z.string().optional().describe('The commit of the source that did not fit.'),
        error: z.string().optional(),
        git_output: z.string().optional().describe('What git said, without secrets.'),
        warning: z.string().optional(),
      }),
    ),
  }),
  run: (input, { git, call }) => git.merge(call, input),
})
