import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { limitFields, limitParams } from './limit-fields.ts'

export default defineTool({
  name: 'update_limit',
  toolset: 'limits',
  title: 'Change a limit',
  description:
    'Raise or lower a limit, or change its interval. It holds from the next use on. With another interval the first period begins now and nothing counts as used. Use get_limits to find the id, create_limit for another entity.',
  permission: 'llmLimit:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { governs: true },
  input: z.strictObject({
    id: limitParams.id,
    limit_value: limitParams.limitValue
      .optional()
      .describe('New value: US dollars for token_cost, calls for the other types.'),
    cleanup_interval: limitParams.interval.optional().describe('New length of a period.'),
  }),
  output: z.strictObject({ limit: limitFields.limit }),
  run: (input, { limits, call }) => limits.update(call, input),
})
