import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'exec',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Run a command',
  description:
    'Run a shell command in a running workspace and wait for its end. Answers exit code, stdout and stderr, also when the time runs out. For a server or a long job use exec_background, for the same in many workspaces exec_parallel.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'external',
  whenDiskFull: true,
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  long: true,
  governed: {
    command: 'command',
    env: 'env',
    paths: ['workdir'],
    opens: { read: 'file_read', write: 'file_write', folder: 'workdir' },
  },
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    command: workspaceParams.command,
    timeout_secs: workspaceParams.timeoutSecs(limits.execTimeoutDefaultSecs),
    workdir: workspaceParams.workdir.optional(),
    env: workspaceParams.env.optional(),
    stdin: z
      .string()
      .max(limits.fileWriteCharsMax)
      .optional()
      .describe('Text for its standard input; nothing when left out.'),
    max_output_bytes: workspaceParams.outputBytes,
  }),
  output: z.strictObject({ ...workspaceFields.outcome }),
  run: (input, { workspaces, call }) => workspaces.exec(call, input),
})
