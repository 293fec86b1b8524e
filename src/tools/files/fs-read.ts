import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.read',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'Read a file of the agent',
  description:
    'Read a text file of your own workspace, whole; at most 10 MiB. To find something in many files use fs.grep.',
  permission: 'workspace:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  governed: { paths: ['path'] },
  answerBytesMax: limits.agentFileAnswerBytesMax,
  input: z.strictObject({ path: fsParams.path('File to read.') }),
  output: z.strictObject({ status: fsFields.status, path: fsFields.path, content: z.string(), size_bytes: z.int() }),
  run: (input, { files, call }) => files.read(call, input),
})
