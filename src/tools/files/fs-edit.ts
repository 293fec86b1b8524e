import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.edit',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'Edit a file of the agent',
  description:
    'Replace a text that occurs exactly once in a file of your own workspace. For several changes of one file at once use fs.multi_edit.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  governed: { paths: ['path'] },
  input: z.strictObject({
    path: fsParams.path('File to edit.'),
    target_content: fsParams.target,
    replacement_content: fsParams.replacement,
  }),
  output: z.strictObject({ status: fsFields.status, path: fsFields.path, message: z.string() }),
  run: (input, { files, call }) => files.edit(call, input),
})
