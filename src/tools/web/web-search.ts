import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'web.search',
  toolset: 'web',
  title: 'Search the web',
  description:
    'Search the web and get titles, addresses and short texts of the best results. To read one of them use web.fetch.',
  permission: 'web:read',
  tier: 'user',
  effect: 'read',
  openWorld: true,
  trust: { source: 'untrusted', sends: true },
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  text: ({ result }) => result,
  input: z.strictObject({
    query: z.string().min(1).max(1_024).describe('What to look for.'),
    max_results: z.int().min(1).max(100).default(10).describe('Maximum number of results; never more than 20.'),
  }),
  output: z.strictObject({
    result: z.string().describe('The results as a numbered list.'),
    query: z.string(),
    engine: z.string(),
    result_count: z.int(),
    results: z.array(z.strictObject({ title: z.string(), url: z.string(), snippet: z.string() })),
  }),
  run: (input, { web, call }) => web.search(call, input),
})
