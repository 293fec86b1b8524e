import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { policyParams, trustedDataPolicy } from './policy-fields.ts'

export default defineTool({
  name: 'get_trusted_data_policy',
  toolset: 'policies',
  title: 'Get a trusted data policy',
  description: 'Show one trusted data policy by its id. Use get_trusted_data_policies to find it.',
  permission: 'toolPolicy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ id: policyParams.id }),
  output: z.strictObject({ policy: trustedDataPolicy }),
  run: (input, { policies, call }) => policies.trustedData.get(call, input),
})
