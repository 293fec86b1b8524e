import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { gitParams } from './git-params.ts'

export default defineTool({
  name: 'git_commit',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Commit changes',
  description:
    'Commit changes in a repository of a workspace; by default everything that changed, new files included. The hooks of the repository run. Use git_push to publish, workspace_merge to bring the commits into another workspace.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  paths: ['path'],
  input: z.strictObject({
    workspace_id: gitParams.workspaceId,
    path: gitParams.path,
    message: z
      .string()
      .min(1)
      .max(limits.gitMessageCharsMax)
      .describe('Commit message: a title, an empty line, a body.'),
    add_all: z.boolean().default(true).describe('Stage everything first; false commits only what is staged.'),
    author_name: z.string().min(1).max(256).optional().describe('Together with author_email.'),
    author_email: z.string().min(1).max(256).optional().describe('Together with author_name.'),
  }),
  output: z.strictObject({
    status: z.enum(['committed', 'nothing_to_commit']),
    message: z.string().optional().describe('Why there was nothing to commit.'),
    commit_sha: z.string().optional(),
    short_sha: z.string().optional(),
    branch: z.string().optional().describe('"(detached HEAD)" when HEAD is on no branch.'),
    summary: z.string().optional().describe('Title of the commit.'),
  }),
  run: (input, { git, call }) => git.commit(call, input),
})
