import { z } from 'zod'
import { anyJson } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { policyParams } from './policy-fields.ts'

export default defineTool({
  name: 'policy_explain',
  toolset: 'policies',
  title: 'Explain what policies say of a call',
  description:
    'Say what would become of a call of a tool with these arguments, and of a result if you give one: which policy decides, and why. Nothing is called. Use it before create_tool_invocation_policy, or after a refusal.',
  permission: 'toolPolicy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    tool: policyParams.toolId,
    arguments: z.record(z.string().max(256), anyJson).default({}).describe('Arguments of the call.'),
    untrusted: z
      .boolean()
      .optional()
      .describe('Whether the context has read untrusted data; if left out, as your own context is now.'),
    result: z
      .record(z.string().max(256), anyJson)
      .optional()
      .describe('A result to judge as well: the object that the tool answers, or content as MCP has it.'),
  }),
  output: z.strictObject({
    tool: z.string(),
    tool_id: z.string(),
    context: z.strictObject({ id: z.string(), untrusted: z.boolean() }),
    governance: z.enum(['permissive', 'restrictive']),
    call: z.strictObject({
      action: z.enum(['allow', 'deny', 'require_approval']),
      policy: z.string().nullable(),
      decided_by: z.enum(['conditions', 'default', 'governance', 'built-in']),
      reason: z.string(),
      because_untrusted: z.boolean(),
    }),
    result: z
      .strictObject({
        action: z.enum(['trusted', 'untrusted', 'block', 'sanitise']),
        policy: z.string().nullable(),
        reason: z.string(),
      })
      .nullable(),
  }),
  run: (input, { policies, call }) => policies.explain(call, input),
})
