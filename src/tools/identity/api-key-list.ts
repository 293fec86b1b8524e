import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { keyView, tenantOfKeys } from './key-view.ts'

export default defineTool({
  name: 'api_key_list',
  toolset: 'identity',
  title: 'List API keys',
  description:
    'List the API keys of a tenant, newest first, revoked and expired ones included: who has access, with which rights, until when, and when it was last used. Secrets are not stored and cannot be listed.',
  permission: 'apiKey:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ tenant: tenantOfKeys.optional(), name: params.part('their name'), ...params.page }),
  output: z.strictObject({
    keys: z.array(keyView),
    ...fields.listed,
  }),
  run: (input, { identity, call }) => identity.listKeys(call, input),
})
