import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { invocationPolicy, policyParams } from './policy-fields.ts'

export default defineTool({
  name: 'update_tool_invocation_policy',
  toolset: 'policies',
  title: 'Change a tool invocation policy',
  description:
    'Change a tool invocation policy; what is left out stays. Use get_tool_invocation_policies to find its id.',
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
    conditions: policyParams.invocationConditions.optional(),
    action: policyParams.invocationAction.optional(),
    reason: policyParams.note.nullable().optional().describe('Why this policy exists, for people; null removes it.'),
  }),
  output: z.strictObject({ policy: invocationPolicy }),
  run: (input, { policies, call }) => policies.invocation.update(call, input),
})
