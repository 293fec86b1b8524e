import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { proxyFields } from './proxy-fields.ts'

export default defineTool({
  name: 'get_llm_proxy',
  toolset: 'model-proxies',
  title: 'Get a model proxy',
  description:
    'Show one model proxy by id or name: its address and who may use it. Of several with one name it is yours, then that of a team, then that of the organisation. Use list_llm_proxies to find one.',
  permission: 'llmProxy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    id: profileParams.idOrName('Id of the proxy.').optional(),
    name: profileParams.idOrName('Exact name of the proxy, if you do not have the id.').optional(),
  }),
  output: proxyFields.proxy,
  run: (input, { modelProxies, call }) => modelProxies.get(call, input),
})
