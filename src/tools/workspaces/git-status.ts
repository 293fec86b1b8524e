import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { gitParams } from './git-params.ts'

export default defineTool({
  name: 'git_status',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Status of a repository',
  description:
    'Show the branch of a repository in a workspace and its staged, modified, untracked and conflicted files. Use git_diff for what changed in them.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  paths: ['path'],
  input: z.strictObject({ workspace_id: gitParams.workspaceId, path: gitParams.defaultPath }),
  output: z.strictObject({
    branch: z.string().describe('"(detached HEAD)" when HEAD is on no branch.'),
    commit_sha: z.string().nullable().describe('Null before the first commit.'),
    upstream: z.string().nullable(),
    ahead: z.int(),
    behind: z.int(),
    staged: z.array(z.string()).describe('Paths below the repository; of a rename, the new one.'),
    modified: z.array(z.string()).describe('Changed and not staged.'),
    untracked: z.array(z.string()).describe('A directory of only such files is one entry that ends with a slash.'),
    conflicted: z.array(z.string()),
    dirty: z.boolean().describe('Whether any of the lists has an entry.'),
    truncated: z.boolean().describe('Whether there are more paths than are listed.'),
  }),
  run: (input, { git, call }) => git.status(call, input),
})
