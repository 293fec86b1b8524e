import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { keyView, tenantOfKeys } from './key-view.ts'

export default defineTool({
  name: 'api_key_revoke',
  toolset: 'identity',
  title: 'Revoke an API key',
  description:
    'End an API key for good; there is no way back. It stops working at once here, and within a second in other processes on the same store. What it recorded stays. Use api_key_list to find its id.',
  permission: 'apiKey:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    key: z.string().min(1).max(64).describe('Id of the key, or the name of a live key.'),
    tenant: tenantOfKeys.optional(),
  }),
  output: keyView,
  run: (input, { identity, call }) => identity.revokeKey(call, input),
})
