import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { lifetimeParams } from '../params.ts'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { virtualKeyFields } from './virtual-key-fields.ts'

const names = (description: string) =>
  z.array(profileParams.idOrName(description)).min(1).max(limits.virtualKeyGrantsMax)

export default defineTool({
  name: 'virtual_key_create',
  toolset: 'model-proxies',
  title: 'Create a virtual key',
  description:
    'Create a virtual key: a key of this server with which a program reaches language models, and nothing else, so that nobody hands out the key of a provider. The answer holds the secret, which is shown this once. Use create_limit to give it a budget, api_key_create for a key that can use tools.',
  permission: 'llmVirtualKey:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    name: z.string().min(1).max(64).describe('What uses the key, such as "ci-summaries".'),
    scope: profileParams.scope
      .optional()
      .describe('Whose it is. personal, unless you name teams: it then acts as you and ends with you.'),
    teams: profileParams.teams.optional(),
    proxies: names('Id or name of a model proxy.').optional().describe('Only at these model proxies.'),
    providers: names('Name of a provider, such as "anthropic".').optional().describe('Only for these providers.'),
    models: names('Name of a model, or its beginning with "*" at the end.')
      .optional()
      .describe('Only for these models, such as "gpt-5-mini", "claude-haiku-*" or "openai:*".'),
    provider_keys: names('Id or name of a provider key.')
      .optional()
      .describe('Which provider keys pay, at most one for a provider. Left out: those of its owner.'),
    ...lifetimeParams,
  }),
  output: virtualKeyFields.view.extend({ secret: virtualKeyFields.secret }),
  run: (input, { virtualKeys, call }) => virtualKeys.create(call, input),
})
