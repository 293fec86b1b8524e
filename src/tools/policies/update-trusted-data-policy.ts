import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { policyParams, trustedDataPolicy } from './policy-fields.ts'

export default defineTool({
  name: 'update_trusted_data_policy',
  toolset: 'policies',
  title: 'Change a trusted data policy',
  description: 'Change a trusted data policy; what is left out stays. Use get_trusted_data_policies to find its id.',
  permission: 'toolPolicy:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { governs: true },
  input: z.strictObject({
    id: policyParams.id,
    toolId: policyParams.toolId.optional(),
    conditions: policyParams.resultConditions.optional(),
    action: policyParams.resultAction.optional(),
    description: policyParams.note
      .nullable()
      .optional()
      .describe('Why this policy exists, for people; null removes it.'),
  }),
  output: z.strictObject({ policy: trustedDataPolicy }),
  run: (input, { policies, call }) => policies.trustedData.update(call, input),
})
