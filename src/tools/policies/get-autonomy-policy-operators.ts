import { z } from 'zod'
import { operators } from '../../contract/policy-conditions.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'get_autonomy_policy_operators',
  toolset: 'policies',
  title: 'List the operators of policies',
  description:
    'List the operators that conditions of policies can have, with a label for people. Use them in create_tool_invocation_policy and create_trusted_data_policy.',
  permission: 'toolPolicy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({ operators: z.array(z.strictObject({ value: z.enum(operators), label: z.string() })) }),
  run: (_input, { policies }) => policies.operators(),
})
