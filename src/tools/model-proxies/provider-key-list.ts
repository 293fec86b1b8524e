import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { providerKeyFields } from './provider-key-fields.ts'

export default defineTool({
  name: 'provider_key_list',
  toolset: 'model-proxies',
  title: 'List provider keys',
  description:
    'List the stored keys of model providers that you can see, newest first: for which provider each is and who uses it. No tool shows a key itself. Use virtual_key_list for the keys that programs have.',
  permission: 'llmProviderApiKey:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({
    keys: z.array(providerKeyFields.view),
    truncated: z.boolean().describe(`True when there are more than the newest ${limits.providerKeyListMax}.`),
  }),
  run: (_, { providerKeys, call }) => providerKeys.list(call),
})
