import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { interactionFields } from './interaction-fields.ts'

export default defineTool({
  name: 'get_llm_proxy_token_usage',
  toolset: 'interactions',
  title: 'Get the token usage of a model proxy',
  description:
    'Get the total of tokens that programs have read and written through a model proxy since it was made. Use interaction_list for single requests and their cost, get_agent_token_usage for an agent.',
  permission: 'llmLimit:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    id: profileParams
      .idOrName("Id of the proxy, or its name. The agent that calls, or the proxy 'default', if left out.")
      .optional(),
  }),
  output: interactionFields.usage,
  run: (input, { interactions, call }) => interactions.proxyUsage(call, input),
})
