import { z } from 'zod'
import { tiers } from '../../contract/principal.ts'
import { lifetimeParams } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { keyView, tenantOfKeys } from './key-view.ts'

export default defineTool({
  name: 'api_key_create',
  toolset: 'identity',
  title: 'Create an API key',
  description:
    'Create an API key for an agent or a person. The answer holds the secret, which is shown this once and cannot be read again: store it at once. A key never gets more rights than its creator has, nor outlives the key that creates it.',
  permission: 'apiKey:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    name: z
      .string()
      .min(1)
      .max(64)
      .describe('Who uses the key, such as "agent-alice"; one live key of a tenant has a name.'),
    role: z
      .string()
      .min(1)
      .max(63)
      .default('member')
      .describe('Sets the permissions that the key can have: admin, editor, member, or one from role_list.'),
    tier: z.enum(tiers).default('user').describe('Highest tier of tools that the key may use.'),
    scopes: z
      .array(z.string().min(1).max(64))
      .min(1)
      .max(100)
      .optional()
      .describe('Narrows the role to these, such as "task:read" or "task:*".'),
    ...lifetimeParams,
    tenant: tenantOfKeys.optional(),
  }),
  output: keyView.extend({ secret: z.string().describe('The whole key, to send as a bearer token. Shown once.') }),
  run: (input, { identity, call }) => identity.createKey(call, input),
})
