import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.delete',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'Delete a file of the agent',
  description: 'Delete a file or a folder of your own workspace, for good. A folder that is not empty needs recursive.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  whenDiskFull: true,
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  governed: { paths: ['path'] },
  input: z.strictObject({
    path: fsParams.path('File or folder to delete.'),
    recursive: z.boolean().default(false).describe('Delete a folder with everything in it.'),
  }),
  output: z.strictObject({ status: fsFields.status, path: fsFields.path }),
  run: (input, { files, call }) => files.remove(call, input),
})
