import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { contextParam } from './context-trust-fields.ts'

export default defineTool({
  name: 'context_trust_clear',
  toolset: 'policies',
  title: 'Make a context trusted again',
  description:
    'Say that a context is trusted again although it has read untrusted data. Only for people, from outside that context, after they looked at what was read. Use context_trust_get to find it.',
  permission: 'toolPolicy:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ context: contextParam }),
  output: z.strictObject({ context: z.string(), cleared: z.boolean() }),
  run: (input, { trust, call }) => trust.clear(call, input),
})
