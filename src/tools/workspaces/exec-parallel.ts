import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'exec_parallel',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Run commands in many workspaces',
  description:
    'Run one command in several workspaces at once, or one command for each, and wait for all. One that fails does not stop the others; a workspace in which it could not be run has the exit code -1 and the reason in error.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  long: true,
  governed: {
    command: 'commands',
    env: 'env',
    paths: ['workdir'],
    opens: { read: 'file_read', write: 'file_write', folder: 'workdir' },
  },
  input: z.strictObject({
    workspace_ids: z
      .array(workspaceParams.workspaceId)
      .min(1)
      .max(limits.workspaceBatchMax)
      .describe('Ids or names, in the order in which the results come.'),
    commands: z
      .union([workspaceParams.command, z.array(workspaceParams.command).min(1).max(limits.workspaceBatchMax)])
      .describe('One shell command for all, or a list with one for each workspace.'),
    timeout_secs: workspaceParams.timeoutSecs(limits.execParallelTimeoutDefaultSecs),
    workdir: workspaceParams.workdir.optional(),
    env: workspaceParams.env.optional(),
    max_output_bytes: workspaceParams.outputBytes,
  }),
  output: z.strictObject({
    results: z.array(
      z.strictObject({
        workspace_id: z.string(),
        workspace_name: z.string(),
        ...workspaceFields.outcome,
        error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
      }),
    ),
    summary: z.strictObject({
      total: z.int(),
      succeeded: z.int(),
      failed: z.int(),
      timed_out: z.int(),
      elapsed_ms: z.int(),
    }),
  }),
  run: (input, { workspaces, call }) => workspaces.execParallel(call, input),
})
