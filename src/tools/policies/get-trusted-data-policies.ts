import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { trustedDataPolicy } from './policy-fields.ts'

export default defineTool({
  name: 'get_trusted_data_policies',
  toolset: 'policies',
  title: 'List trusted data policies',
  description:
    'List all trusted data policies, in the order in which they are asked. They decide whether the results of a tool are trusted. Use get_trusted_data_policy for one.',
  permission: 'toolPolicy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({ policies: z.array(trustedDataPolicy) }),
  run: (_input, { policies, call }) => policies.trustedData.list(call),
})
