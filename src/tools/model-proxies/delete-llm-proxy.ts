import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'delete_llm_proxy',
  toolset: 'model-proxies',
  title: 'Delete a model proxy',
  description:
    'Remove a model proxy. Its address is gone at once; what passed through it stays recorded. Use edit_llm_proxy to share it with fewer people instead.',
  permission: 'llmProxy:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ id: profileParams.idOrName('Id of the proxy, or its name.') }),
  output: z.strictObject({ id: z.string(), deleted: z.boolean() }),
  run: (input, { modelProxies, call }) => modelProxies.remove(call, input),
})
