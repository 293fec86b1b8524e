import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { providerKeyFields } from './provider-key-fields.ts'

export default defineTool({
  name: 'provider_key_create',
  toolset: 'model-proxies',
  title: 'Store a provider key',
  description:
    'Store the API key that a model provider such as OpenAI gave you, encrypted, for yourself, for teams or for the organisation. Requests to models through this server and by agents then use it: yours before that of a team, that of a team before that of the organisation. Use virtual_key_create to give programs a key of this server.',
  permission: 'llmProviderApiKey:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    name: providerKeyFields.name.describe('What you call it, such as "research-budget".'),
    provider: profileParams.idOrName('Name of the provider, such as "openai", "anthropic" or "gemini".'),
    secret: providerKeyFields.secret,
    scope: profileParams.scope.optional().describe('Who uses it. personal, unless you name teams.'),
    teams: profileParams.teams.optional(),
    primary: providerKeyFields.primary.optional(),
  }),
  output: providerKeyFields.view,
  run: (input, { providerKeys, call }) => providerKeys.create(call, input),
})
