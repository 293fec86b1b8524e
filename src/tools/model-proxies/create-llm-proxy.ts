import { z } from 'zod'
import { newProfileParams, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { proxyFields } from './proxy-fields.ts'

export default defineTool({
  name: 'create_llm_proxy',
  toolset: 'model-proxies',
  title: 'Create a model proxy',
  description:
    'Make a model proxy: an address through which programs reach language models, for the people with whom you share it. What passes is recorded and judged. Use create_mcp_gateway for an address with tools.',
  permission: 'llmProxy:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    name: profileParams.name.describe('Name of the proxy, for people.'),
    scope: profileParams.scope.optional().describe('Who may use it. org, unless you name teams.'),
    ...newProfileParams,
  }),
  output: proxyFields.proxy,
  run: (input, { modelProxies, call }) => modelProxies.create(call, input),
})
