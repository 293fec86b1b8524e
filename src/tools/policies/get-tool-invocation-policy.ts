import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { invocationPolicy, policyParams } from './policy-fields.ts'

export default defineTool({
  name: 'get_tool_invocation_policy',
  toolset: 'policies',
  title: 'Get a tool invocation policy',
  description: 'Show one tool invocation policy by its id. Use get_tool_invocation_policies to find it.',
  permission: 'toolPolicy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ id: policyParams.id }),
  output: z.strictObject({ policy: invocationPolicy }),
  run: (input, { policies, call }) => policies.invocation.get(call, input),
})
