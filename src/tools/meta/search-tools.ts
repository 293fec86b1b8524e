import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { searchLimits } from '../runtime/search/search-request.ts'

export default defineTool({
  name: 'search_tools',
  toolset: 'meta',
  title: 'Search tools',
  description:
    'Find tools by what they do. The list you were given may be only a part of what there is: search here, then call what you find with run_tool.',
  permission: null,
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  namesTools: true,
  input: z.strictObject({
    query: z
      .string()
      .trim()
      .min(1)
      .max(searchLimits.queryCharactersMax)
      .describe(
        'What you need, as you would say it or in a few words, such as "create task". In regex mode, a pattern.',
      ),
    limit: z
      .int()
      .min(1)
      .max(searchLimits.limitMax)
      .default(searchLimits.limitDefault)
      .describe('How many tools at most.'),
    mode: z
      .enum(['keyword', 'regex'])
      .default('keyword')
      .describe('keyword ranks by meaning and by shared words; regex matches names, titles and descriptions.'),
  }),
  output: z.strictObject({
    total: z.int().describe('How many tools are returned.'),
    matchCount: z.int().describe('How many match before the limit.'),
    truncated: z.boolean(),
    hint: z.string().nullable().describe('What to try when nothing, or too much, was found.'),
    tools: z.array(
      z.strictObject({
        toolName: z.string().describe('Exact name for run_tool.'),
        description: z.string().nullable(),
        source: z
          .enum(['archestra', 'mcp', 'agent_delegation'])
          .describe('"archestra" marks the tools of this server itself.'),
        server: z.string().nullable(),
        params: z.string().describe('One-line signature: name!:type is required, name?:type optional.'),
      }),
    ),
  }),
  run: (input, { searchTools, principal, call }) => searchTools(principal, input, call.signal),
})
