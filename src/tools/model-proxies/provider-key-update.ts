import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { providerKeyFields } from './provider-key-fields.ts'

export default defineTool({
  name: 'provider_key_update',
  toolset: 'model-proxies',
  title: 'Change a provider key',
  description:
    'Rename a stored key of a model provider, or say that it comes before others of the same scope. Use provider_key_rotate to replace the key itself.',
  permission: 'llmProviderApiKey:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { governs: true },
  input: z.strictObject({
    key: providerKeyFields.key,
    name: providerKeyFields.name.optional().describe('The new name.'),
    primary: providerKeyFields.primary.optional(),
  }),
  output: providerKeyFields.view,
  run: (input, { providerKeys, call }) => providerKeys.update(call, input),
})
