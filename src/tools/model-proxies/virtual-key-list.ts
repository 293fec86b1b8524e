import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { virtualKeyFields } from './virtual-key-fields.ts'

export default defineTool({
  name: 'virtual_key_list',
  toolset: 'model-proxies',
  title: 'List virtual keys',
  description:
    'List the virtual keys that you can see, newest first, revoked and expired ones included: which models each is for, until when, and when it was last used. Use api_key_list for the keys that can use tools.',
  permission: 'llmVirtualKey:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({
    keys: z.array(virtualKeyFields.view),
    truncated: z.boolean().describe(`True when there are more than the newest ${limits.virtualKeyListMax}.`),
  }),
  run: (_, { virtualKeys, call }) => virtualKeys.list(call),
})
