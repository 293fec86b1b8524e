import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { providerKeyFields } from './provider-key-fields.ts'

export default defineTool({
  name: 'provider_key_delete',
  toolset: 'model-proxies',
  title: 'Delete a provider key',
  description:
    'Remove a stored key of a model provider for good. No new request uses it, at once here and within a second in other processes on the same store. A secret to which it only referred stays until secret_delete.',
  permission: 'llmProviderApiKey:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({ key: providerKeyFields.key }),
  output: z.strictObject({ id: z.string(), deleted: z.literal(true) }),
  run: (input, { providerKeys, call }) => providerKeys.remove(call, input),
})
