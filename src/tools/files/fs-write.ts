import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.write',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'Write a file of the agent',
  description:
    'Write a text file of your own workspace, whole or not at all; missing folders are made. To change a part of a file use fs.edit.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  governed: { paths: ['path'] },
  input: z.strictObject({
    path: fsParams.path('File to write.'),
    content: z.string().max(limits.fileWriteCharsMax).describe('The whole new content.'),
  }),
  output: z.strictObject({ status: fsFields.status, path: fsFields.path, bytes_written: z.int() }),
  run: (input, { files, call }) => files.write(call, input),
})
