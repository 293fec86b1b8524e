import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { policyParams } from './policy-fields.ts'

export default defineTool({
  name: 'delete_trusted_data_policy',
  toolset: 'policies',
  title: 'Delete a trusted data policy',
  description:
    'Delete a trusted data policy. It holds for no call that is made afterwards. Use get_trusted_data_policies to find its id.',
  permission: 'toolPolicy:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({ id: policyParams.id }),
  output: z.strictObject({ success: z.boolean() }),
  run: (input, { policies, call }) => policies.trustedData.remove(call, input),
})
