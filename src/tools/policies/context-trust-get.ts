import { z } from 'zod'
import { params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { contextFields, contextParam } from './context-trust-fields.ts'

export default defineTool({
  name: 'context_trust_get',
  toolset: 'policies',
  title: 'See whether a context is trusted',
  description:
    'Say whether your context, or the one you name, has read untrusted data: since when, and through which call. Who may change policies sees all untrusted contexts. A person makes one trusted again with context_trust_clear.',
  permission: 'toolPolicy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ context: contextParam.optional(), limit: params.limit(50, 500) }),
  output: z.strictObject({
    ...contextFields,
    untrusted: z.boolean(),
    others: z.array(z.strictObject(contextFields)).describe('Other untrusted contexts, the newest first.'),
  }),
  run: (input, { trust, call }) => trust.get(call, input),
})
