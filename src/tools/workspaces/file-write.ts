import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'file_write',
  toolset: 'workspaces',
  trust: { reads: 'workspace' },
  title: 'Write a file',
  description:
    'Write a text file in a running workspace, whole or not at all; missing parent directories are made. To change a part of a file use file_edit, for large or binary content file_transfer.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  governed: { paths: ['path'] },
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    path: workspaceParams.path,
    content: z.string().max(limits.fileWriteCharsMax).describe('The whole new content.'),
    mode: z
      .string()
      .min(3)
      .max(6)
      .optional()
      .describe('Octal mode such as "0755"; an existing file keeps its own when left out.'),
  }),
  output: z.strictObject({
    path: z.string(),
    bytes_written: z.int(),
    message: workspaceFields.message,
  }),
  run: (input, { workspaces, call }) => workspaces.writeFile(call, input),
})
