import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.multi_edit',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'Edit a file in several places',
  description:
    'Make several replacements in one file of your own workspace, one after the other: all of them or none. Each text must occur exactly once.',
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
    edits: z
      .array(z.strictObject({ target_content: fsParams.target, replacement_content: fsParams.replacement }))
      .min(1)
      .max(limits.agentEditsMax)
      .describe('Replacements, each on what the one before left.'),
  }),
  output: z.strictObject({ status: fsFields.status, path: fsFields.path, applied: z.int() }),
  run: (input, { files, call }) => files.multiEdit(call, input),
})
