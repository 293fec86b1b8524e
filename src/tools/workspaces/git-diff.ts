import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { gitParams } from './git-params.ts'

export default defineTool({
  name: 'git_diff',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Show changes',
  description:
    'Show what changed in a repository of a workspace and is not committed: unstaged changes, or the staged ones. Text that looks like a secret is replaced by [redacted]. Use git_status for the list of files, untracked ones included.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  paths: ['path'],
  input: z.strictObject({
    workspace_id: gitParams.workspaceId,
    path: gitParams.path,
    staged: z.boolean().default(false).describe('Staged changes instead of unstaged ones.'),
    stat: z.boolean().default(false).describe('Also answer a summary of files and lines.'),
    file_path: z.string().min(1).max(4096).optional().describe('Only this file or directory, relative to path.'),
    max_bytes: z
      .int()
      .min(1)
      .max(limits.gitDiffBytesMax)
      .default(limits.gitDiffBytesDefault)
      .describe('Bytes of the diff that are shown.'),
  }),
  output: z.strictObject({
    diff: z.string().describe('Ends with [TRUNCATED] when it was cut.'),
    truncated: z.boolean(),
    stat: z.string().optional(),
  }),
  run: (input, { git, call }) => git.diff(call, input),
})
