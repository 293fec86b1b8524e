import { z } from 'zod'
import { fields } from '../params.ts'
import { profileFields, profileListParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { proxyFields } from './proxy-fields.ts'

const { id, name, slug, path, description, scope } = proxyFields.proxy.shape

export default defineTool({
  name: 'list_llm_proxies',
  toolset: 'model-proxies',
  title: 'List model proxies',
  description: 'List the model proxies that you may use, by name, with their addresses. Use get_llm_proxy for one.',
  permission: 'llmProxy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: profileListParams,
  output: z.strictObject({
    total: fields.total,
    proxies: z.array(
      z.strictObject({
        ...{ id, name, slug, path, description, scope },
        teams: z.array(profileFields.team),
        labels: z.array(profileFields.label),
      }),
    ),
  }),
  run: (input, { modelProxies, call }) => modelProxies.list(call, input),
})
