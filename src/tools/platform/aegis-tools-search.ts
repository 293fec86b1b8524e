import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { toolFilters, toolRow } from './platform-fields.ts'

export default defineTool({
  name: 'aegis.tools.search',
  toolset: 'platform',
  title: 'Search tools',
  description:
    'Find tools that you may use by what they do, in a few words or a sentence, or by a name or a pattern of names such as fs.*, and by source, category or tags; without any of these all are given. It ranks as search_tools does. Use aegis.tools.list to see all.',
  permission: 'server:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({
    query: z
      .string()
      .max(limits.searchQueryCharsMax)
      .optional()
      .describe('What the tool should do, a name, or a pattern of names.'),
    ...toolFilters,
  }),
  output: z.strictObject({
    tool: z.literal('aegis.tools.search'),
    query: z.string(),
    tools: z.array(toolRow),
    total: z.int(),
  }),
  run: (input, { platform, call }) => platform.searchTools(call, input),
})
