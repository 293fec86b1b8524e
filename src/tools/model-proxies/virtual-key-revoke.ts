import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { virtualKeyFields } from './virtual-key-fields.ts'

export default defineTool({
  name: 'virtual_key_revoke',
  toolset: 'model-proxies',
  title: 'Revoke a virtual key',
  description:
    'End a virtual key for good; there is no way back. Answers of models that are under way with it are cut off. It stops working at once here, and within a second in other processes on the same store. Use virtual_key_rotate for a new secret instead.',
  permission: 'llmVirtualKey:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ key: virtualKeyFields.key }),
  output: virtualKeyFields.view,
  run: (input, { virtualKeys, call }) => virtualKeys.revoke(call, input),
})
