import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { policyParams, trustedDataPolicy } from './policy-fields.ts'

export default defineTool({
  name: 'create_trusted_data_policy',
  toolset: 'policies',
  title: 'Create a trusted data policy',
  description:
    'Create a policy for one tool: its conditions must all match, then its action holds. Without conditions it is the default of the tool. What no policy trusts makes the context untrusted. Try it first with policy_explain.',
  permission: 'toolPolicy:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    toolId: policyParams.toolId,
    conditions: policyParams.resultConditions,
    action: policyParams.resultAction,
    description: policyParams.note.optional(),
  }),
  output: z.strictObject({ policy: trustedDataPolicy }),
  run: (input, { policies, call }) => policies.trustedData.create(call, input),
})
