import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'set_env',
  toolset: 'workspaces',
  trust: { reads: 'workspace' },
  title: 'Set environment variables',
  description:
    'Keep environment variables in a workspace; every later exec and exec_background finds them, also after a restart, and forks get a copy. Variables given with a command win over these. Variables that decide which programs run, such as PATH, are refused.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  governed: { opaque: 'commands' },
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    vars: z
      .record(z.string().max(128), z.string().max(limits.workspaceEnvBytesMax))
      .describe('Names and values; all are set or none. Pass {} to only unset.'),
    unset: z
      .array(z.string().min(1).max(128))
      .max(limits.workspaceEnvVariablesMax)
      .optional()
      .describe('Names to forget.'),
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    count: z.int().describe('How many were set.'),
    status: z.literal('set'),
    names: z.array(z.string()).describe('All that are kept now.'),
  }),
  run: (input, { workspaces, call }) => workspaces.setEnv(call, input),
})
