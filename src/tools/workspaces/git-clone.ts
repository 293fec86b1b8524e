import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { gitParams } from './git-params.ts'

export default defineTool({
  name: 'git_clone',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: true },
  title: 'Clone a repository',
  description:
    'Clone a git repository into a running workspace. The directory must be empty or not there yet. The workspace must be allowed to reach the host (network_policy). Answers the path and the commit that is checked out.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  long: true,
  governed: { opaque: 'commands', paths: ['path'], sources: ['url'] },
  input: z.strictObject({
    workspace_id: gitParams.workspaceId,
    url: z
      .string()
      .min(1)
      .max(2048)
      .describe(
        'https://, http://, git:// or ssh:// address, user@host:path, or an absolute path in the workspace. A password in it is used once, not kept.',
      ),
    path: gitParams.defaultPath.describe('Where to put it, absolute.'),
    branch: gitParams.branch.optional().describe('Branch or tag to check out; the default branch when left out.'),
    depth: z.int().min(1).max(1_000_000).optional().describe('Only so many of the newest commits.'),
  }),
  output: z.strictObject({
    success: z.literal(true),
    path: z.string(),
    commit_sha: z.string().nullable().describe('Null for a repository without commits.'),
    url: z.string().describe('Without credentials.'),
    branch: z.string().nullable(),
    depth: z.int().nullable(),
  }),
  run: (input, { git, call }) => git.clone(call, input),
})
