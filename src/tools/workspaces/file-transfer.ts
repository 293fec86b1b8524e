import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'file_transfer',
  toolset: 'workspaces',
  trust: { reads: 'workspace' },
  title: 'Copy a file in or out',
  description:
    'Copy a file of any content, up to a size that the operator sets, between the transfer directory of the host and a running workspace. For text that is at hand use file_write and file_read.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  governed: { paths: ['guest_path'] },
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    direction: z.enum(['upload', 'download']).describe('upload copies into the workspace, download out of it.'),
    host_path: z
      .string()
      .min(1)
      .max(4096)
      .describe(
        'Path in the transfer directory, which all of your tenant share: relative to it, or absolute inside it.',
      ),
    guest_path: workspaceParams.path,
  }),
  output: z.strictObject({
    direction: z.enum(['upload', 'download']),
    host_path: z.string(),
    guest_path: z.string(),
    bytes: z.int(),
    message: workspaceFields.message,
  }),
  run: (input, { workspaces, call }) => workspaces.transferFile(call, input),
})
