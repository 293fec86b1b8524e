import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { gitParams } from './git-params.ts'

export default defineTool({
  name: 'git_push',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: true },
  title: 'Push commits',
  description:
    'Push a branch of a repository in a workspace to the branch of the same name of a remote. Credentials come from the egress proxy or from what the workspace has. The workspace must be allowed to reach the host (network_policy).',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  long: true,
  paths: ['path'],
  input: z.strictObject({
    workspace_id: gitParams.workspaceId,
    path: gitParams.path,
    remote: z.string().min(1).max(200).default('origin').describe('Name of a configured remote, not an address.'),
    branch: gitParams.branch.optional().describe('The current branch when left out.'),
    force: z.boolean().default(false).describe('Overwrite what the remote has.'),
    set_upstream: z.boolean().default(false).describe('Make it the upstream of the branch.'),
    timeout_secs: z
      .int()
      .min(1)
      .max(limits.gitPushTimeoutSecsMax)
      .default(limits.gitPushTimeoutDefaultSecs)
      .describe('Seconds after which it is given up.'),
  }),
  output: z.strictObject({
    remote: z.string(),
    branch: z.string(),
    success: z.literal(true),
    output: z.string().describe('What git and the remote said, without secrets.'),
  }),
  run: (input, { git, call }) => git.push(call, input),
})
