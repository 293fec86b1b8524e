import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { virtualKeyFields } from './virtual-key-fields.ts'

export default defineTool({
  name: 'virtual_key_rotate',
  toolset: 'model-proxies',
  title: 'Rotate a virtual key',
  description:
    'Give a virtual key a new secret, which is shown this once. The old secret stops working at once; what it is for and its limits stay. Use virtual_key_revoke to end the key.',
  permission: 'llmVirtualKey:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({ key: virtualKeyFields.key }),
  output: virtualKeyFields.view.extend({ secret: virtualKeyFields.secret }),
  run: (input, { virtualKeys, call }) => virtualKeys.rotate(call, input),
})
