import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { toolFilters, toolRow } from './platform-fields.ts'

export default defineTool({
  name: 'aegis.tools.list',
  toolset: 'platform',
  title: 'List tools',
  description:
    'List the tools that you may use, under your permissions and your security contexts: all, or those of a source, a category or tags, page by page if you like. Use aegis.tools.search to find one by words.',
  permission: 'server:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject(toolFilters),
  output: z.strictObject({ tool: z.literal('aegis.tools.list'), tools: z.array(toolRow), total: z.int() }),
  run: (input, { platform, call }) => platform.listTools(call, input),
})
