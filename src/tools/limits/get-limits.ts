import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { limitFields, limitParams } from './limit-fields.ts'

export default defineTool({
  name: 'get_limits',
  toolset: 'limits',
  title: 'List limits',
  description:
    'List the limits of your organisation, with what is used and left of each and when its next period begins. Narrow the list by entity. Use create_limit to set one.',
  permission: 'llmLimit:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    entity_type: limitParams.entityType.optional().describe('Only limits of this type of entity.'),
    entity_id: limitParams.entityId
      .optional()
      .describe('Only limits of this entity: its id, or its name if you give entity_type too.'),
  }),
  output: z.strictObject({ limits: z.array(limitFields.limit) }),
  run: (input, { limits, call }) => limits.list(call, input),
})
