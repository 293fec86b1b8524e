import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { limitParams } from './limit-fields.ts'

export default defineTool({
  name: 'delete_limit',
  toolset: 'limits',
  title: 'Delete a limit',
  description:
    'Remove a limit. What it counted is forgotten, and the entity is bound by its other limits only. Use update_limit to raise it instead.',
  permission: 'llmLimit:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({ id: limitParams.id }),
  output: z.strictObject({ success: z.boolean(), id: z.string() }),
  run: (input, { limits, call }) => limits.remove(call, input),
})
