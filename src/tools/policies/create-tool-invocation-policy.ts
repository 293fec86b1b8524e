import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { invocationPolicy, policyParams } from './policy-fields.ts'

export default defineTool({
  name: 'create_tool_invocation_policy',
  toolset: 'policies',
  title: 'Create a tool invocation policy',
  description:
    'Create a policy for one tool: its conditions must all match, then its action holds. Without conditions it is the default of the tool; creating a default again changes the one that is there. Try it first with policy_explain.',
  permission: 'toolPolicy:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    toolId: policyParams.toolId,
    conditions: policyParams.invocationConditions,
    action: policyParams.invocationAction,
    reason: policyParams.note.optional(),
  }),
  output: z.strictObject({ policy: invocationPolicy }),
  run: (input, { policies, call }) => policies.invocation.create(call, input),
})
