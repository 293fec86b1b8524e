import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { fsFields, fsParams } from './fs-params.ts'

export default defineTool({
  name: 'fs.grep',
  toolset: 'fs',
  trust: { reads: 'workspace' },
  title: 'Search in files of the agent',
  description:
    'Search the files below a folder of your own workspace for a regular expression; lines come as path:line:content. To find files by their names use fs.glob.',
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
    pattern: fsParams.pattern('Regular expression, in the syntax of Rust.'),
    path: fsParams.path('Folder or file to search.'),
  }),
  output: z.strictObject(fsFields.found),
  run: (input, { files, call }) => files.grep(call, input),
})
