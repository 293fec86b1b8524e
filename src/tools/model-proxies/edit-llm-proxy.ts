import { z } from 'zod'
import { changedProfileParams, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { proxyFields } from './proxy-fields.ts'

export default defineTool({
  name: 'edit_llm_proxy',
  toolset: 'model-proxies',
  title: 'Edit a model proxy',
  description:
    'Change a model proxy: its name, its labels, or who may use it. What you leave out stays, and so does its address. Use get_llm_proxy to see it first.',
  permission: 'llmProxy:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { governs: true },
  input: z.strictObject({
    id: profileParams.idOrName('Id of the proxy, or its name.'),
    ...changedProfileParams,
  }),
  output: proxyFields.proxy,
  run: (input, { modelProxies, call }) => modelProxies.edit(call, input),
})
