import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.list',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'List a folder of the agent',
  description: 'List a folder of your own workspace. To find files by their names anywhere below it use fs.glob.',
  permission: 'workspace:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  governed: { paths: ['path'] },
  input: z.strictObject({ path: fsParams.path('Folder to list.') }),
  output: z.strictObject({
    status: fsFields.status,
    path: fsFields.path,
    entries: z.array(z.strictObject({ name: z.string(), file_type: z.enum(['file', 'directory']) })),
    truncated: z.boolean().describe('Whether there are more.'),
  }),
  run: (input, { files, call }) => files.list(call, input),
})
