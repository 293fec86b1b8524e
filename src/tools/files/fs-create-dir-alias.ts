import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.create.dir',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'Make a folder of the agent',
  description: 'Another name of fs.create_dir: make a folder in your own workspace, with those above it.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  governed: { paths: ['path'] },
  aliasOf: 'fs.create_dir',
  input: z.strictObject({ path: fsParams.path('Folder to make.') }),
  output: z.strictObject({ status: fsFields.status, path: fsFields.path }),
  run: (input, { files, call }) => files.createDirectory(call, input, 'fs.create.dir'),
})
