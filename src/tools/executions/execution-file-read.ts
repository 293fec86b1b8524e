import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { executionParams } from './execution-fields.ts'

export default defineTool({
  name: 'execution_file_read',
  toolset: 'executions',
  trust: { reads: 'run' },
  title: 'Read a file of an execution',
  description:
    'Read a whole file from the workspace of an execution, while it runs or afterwards if the workspace was kept. Use file_read for parts of a large file, fs.read for your own workspace.',
  permission: 'execution:read',
  alsoNeeds: ['workspace:read'],
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  governed: { paths: ['path'] },
  input: z.strictObject({
    execution_id: executionParams.executionId,
    path: z.string().min(1).max(4096).describe('Path of the file; a relative one begins at /workspace.'),
  }),
  output: z.strictObject({
    execution_id: z.string(),
    path: z.string(),
    size: z.int(),
    encoding: z.enum(['utf-8', 'base64']).describe('base64 for what is not text.'),
    content: z.string(),
  }),
  run: (input, { executions, call }) => executions.readFile(call, input),
})
