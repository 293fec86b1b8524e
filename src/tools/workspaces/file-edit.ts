import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'file_edit',
  toolset: 'workspaces',
  trust: { reads: 'workspace' },
  title: 'Edit a file',
  description:
    'Replace the first exact occurrence of a text in a file of a running workspace; the rest stays as it is. Answers how many occurrences there were, and fails when there is none. Use file_write to replace the whole file.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  governed: { paths: ['path'] },
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    path: workspaceParams.path,
    old_string: z
      .string()
      .min(1)
      .max(limits.fileWriteCharsMax)
      .describe('Text to replace, exactly as it is in the file.'),
    new_string: z.string().max(limits.fileWriteCharsMax).describe('Text to put in its place.'),
  }),
  output: z.strictObject({
    path: z.string(),
    occurrences: z.int().describe('How many there were before.'),
    replaced: z.int(),
    bytes_written: z.int(),
    message: workspaceFields.message,
  }),
  run: (input, { workspaces, call }) => workspaces.editFile(call, input),
})
