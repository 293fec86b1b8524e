import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { policyParams } from './policy-fields.ts'

export default defineTool({
  name: 'delete_tool_invocation_policy',
  toolset: 'policies',
  title: 'Delete a tool invocation policy',
  description:
    'Delete a tool invocation policy. It holds for no call that is made afterwards. Use get_tool_invocation_policies to find its id.',
  permission: 'toolPolicy:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({ id: policyParams.id }),
  output: z.strictObject({ success: z.boolean() }),
  run: (input, { policies, call }) => policies.invocation.remove(call, input),
})
