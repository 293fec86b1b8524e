import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'log_checkpoint',
  toolset: 'log',
  title: 'Log checkpoint',
  description:
    'A signed statement of the size and root of the whole log now. Keep it elsewhere: with log_consistency_proof it later shows that nothing before it was changed.',
  permission: 'auditLog:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({
    origin: z.string(),
    size: z.int(),
    root: fields.hash,
    checkpoint: z.string().describe('The signed note.'),
    key: z.string().describe('The verifier key; compare it with the one you trust.'),
  }),
  run: (_input, { log, call }) => log.checkpoint(call),
})
