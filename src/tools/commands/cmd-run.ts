import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { WORKSPACE_FOLDER } from '../../contract/workspace-path.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'cmd.run',
  toolset: 'cmd',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Run a command of the agent',
  description:
    'Run a command in your own workspace and wait for its end; a non-zero exit code is an answer. With args it is a program and its arguments, without a shell; else a line for a shell. To run in a workspace of your choice use exec.',
  permission: 'workspace:exec',
  tier: 'user',
  effect: 'external',
  whenDiskFull: true,
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  long: true,
  arguments: 'aegis',
  governed: {
    command: 'command',
    args: 'args',
    paths: ['cwd'],
    opens: { read: 'fs.read', write: 'fs.write', folder: 'cwd', folderDefault: WORKSPACE_FOLDER },
  },
  input: z.strictObject({
    command: z
      .string()
      .max(limits.execCommandCharsMax)
      .describe('Program to run when args are given; else a line for a shell. Its first word may be checked.'),
    args: z
      .array(z.string().max(limits.workspaceEnvBytesMax))
      .max(limits.commandArgumentsMax)
      .optional()
      .describe('Arguments, each passed on as it is.'),
    cwd: z.string().min(1).max(4_096).optional().describe('Folder to run in; /workspace when left out.'),
    timeout_secs: z
      .int()
      .min(1)
      .max(limits.execTimeoutSecsMax)
      .optional()
      .describe('Time limit in seconds, up to the configured ceiling. Default: 60, or as configured.'),
  }),
  output: z.strictObject({
    stdout: z.string(),
    stderr: z.string(),
    exit_code: z.int().describe('128 and the number of the signal when one ended it.'),
  }),
  run: (input, { commands, call }) => commands.run(call, input),
})
