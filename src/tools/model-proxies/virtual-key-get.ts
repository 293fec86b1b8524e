import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { virtualKeyFields } from './virtual-key-fields.ts'

export default defineTool({
  name: 'virtual_key_get',
  toolset: 'model-proxies',
  title: 'Read a virtual key',
  description:
    'Show one virtual key by id or name: what it is for, whose it is, and whether it is live. Its secret cannot be read again. Use virtual_key_list to find it.',
  permission: 'llmVirtualKey:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ key: virtualKeyFields.key }),
  output: virtualKeyFields.view,
  run: (input, { virtualKeys, call }) => virtualKeys.get(call, input),
})
