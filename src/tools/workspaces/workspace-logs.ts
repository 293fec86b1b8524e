import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'workspace_logs',
  toolset: 'workspaces',
  trust: { reads: 'workspace' },
  title: 'Read the log of a workspace',
  description:
    'Read what happened to a workspace, newest last: its starts and ends, why a start failed, and what a limit of memory or processes stopped. For output of commands use exec or exec_background.',
  permission: 'workspace:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    log_type: z
      .enum(['console', 'stderr', 'all'])
      .default('all')
      .describe('console: everything. stderr: only what went wrong. all: both.'),
    max_lines: z.int().min(1).max(10_000).default(100).describe('How many lines at most, from the end.'),
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    console: z.string().optional(),
    stderr: z.string().optional(),
  }),
  run: (input, { workspaces, call }) => workspaces.logs(call, input),
})
