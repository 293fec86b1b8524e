import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'exec_background',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Manage background jobs',
  description:
    'Start a shell command that runs in the background, poll its output while it runs, kill it, list the jobs of a workspace, or remove a finished one. Jobs survive a restart of the server; stopping the workspace ends them. For a short command use exec.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'exec',
  actions: {
    poll: { permission: 'workspace:read', effect: 'read' },
    list: { permission: 'workspace:read', effect: 'read' },
    kill: { whenDiskFull: true },
    remove: { whenDiskFull: true },
  },
  skipJudge: false,
  governed: {
    command: 'command',
    env: 'env',
    paths: ['workdir'],
    opens: { read: 'file_read', write: 'file_write', folder: 'workdir' },
  },
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    action: z.enum(['start', 'poll', 'kill', 'remove', 'list']),
    command: workspaceParams.command.optional().describe('For start: shell command, run by /bin/sh -c.'),
    workdir: workspaceParams.workdir.optional(),
    env: workspaceParams.env.optional(),
    timeout_secs: z
      .int()
      .min(0)
      .max(limits.execTimeoutSecsMax)
      .optional()
      .describe('For start: seconds after which it is ended; never when left out.'),
    job_id: z.int().min(0).max(4_294_967_295).optional().describe('For poll, kill and remove: what start answered.'),
    signal: z
      .int()
      .min(1)
      .max(64)
      .optional()
      .describe('For kill: number of the signal to the whole group; 9 when left out.'),
    cursor: z
      .string()
      .max(64)
      .optional()
      .describe('For poll: cursor of the last poll, to get only what came since; all that is kept when left out.'),
    max_output_bytes: z
      .int()
      .min(1)
      .max(limits.execOutputBytesMax)
      .optional()
      .describe('For poll: bytes of each stream at most.'),
  }),
  output: z.strictObject({
    action: z.enum(['start', 'poll', 'kill', 'remove', 'list']),
    workspace_id: z.string(),
    status: z
      .enum(['started', 'killed', 'ended', 'removed'])
      .optional()
      .describe('"ended" for kill: it had ended by itself, and no signal was sent.'),
    ...z.strictObject(workspaceFields.job).partial().shape,
    signal: z.int().optional(),
    stdout: z.string().optional(),
    stderr: z.string().optional(),
    cursor: z.string().optional().describe('For the next poll.'),
    more: z.boolean().optional().describe('There is more already; poll again at once.'),
    skipped_stdout_bytes: z.int().optional().describe('Dropped from the log before they were read.'),
    skipped_stderr_bytes: z.int().optional(),
    jobs: z.array(z.strictObject(workspaceFields.job)).optional(),
  }),
  run: (input, { workspaces, call }) => workspaces.background(call, input),
})
