import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.glob',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'Find files of the agent by name',
  description:
    'Find files below a folder of your own workspace by a pattern such as src/**/*.ts: * stays in one folder, ** goes through all. To search in files use fs.grep.',
  permission: 'workspace:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  governed: { paths: ['path'] },
  text: ({ result }) => result,
  input: z.strictObject({
    pattern: fsParams.pattern('Pattern of paths below the folder.'),
    path: fsParams.path('Folder to begin at.'),
  }),
  output: z.strictObject(fsFields.found),
  run: (input, { files, call }) => files.glob(call, input),
})
