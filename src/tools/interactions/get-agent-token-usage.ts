import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { interactionFields } from './interaction-fields.ts'

export default defineTool({
  name: 'get_agent_token_usage',
  toolset: 'interactions',
  title: 'Get the token usage of an agent',
  description:
    'Get the total of tokens that an agent has read and written since it was made. Use interaction_list for single requests and their cost, get_llm_proxy_token_usage for a model proxy.',
  permission: 'llmLimit:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    id: profileParams.idOrName('Id of the agent, or its name. The agent that calls, if left out.').optional(),
  }),
  output: interactionFields.usage,
  run: (input, { interactions, call }) => interactions.agentUsage(call, input),
})
