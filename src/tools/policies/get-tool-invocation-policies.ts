import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { invocationPolicy } from './policy-fields.ts'

export default defineTool({
  name: 'get_tool_invocation_policies',
  toolset: 'policies',
  title: 'List tool invocation policies',
  description:
    'List all tool invocation policies, in the order in which they are asked. They decide whether a tool may be called. Use get_tool_invocation_policy for one.',
  permission: 'toolPolicy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({ policies: z.array(invocationPolicy) }),
  run: (_input, { policies, call }) => policies.invocation.list(call),
})
