import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { providerKeyFields } from './provider-key-fields.ts'

export default defineTool({
  name: 'provider_key_rotate',
  toolset: 'model-proxies',
  title: 'Replace a provider key',
  description:
    'Put a new API key of the provider in the place of a stored one. New requests use it at once, and virtual keys that name it stay as they are. Requests under way finish with the old one.',
  permission: 'llmProviderApiKey:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({ key: providerKeyFields.key, secret: providerKeyFields.secret }),
  output: providerKeyFields.view,
  run: (input, { providerKeys, call }) => providerKeys.rotate(call, input),
})
