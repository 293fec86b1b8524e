import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'log_consistency_proof',
  toolset: 'log',
  title: 'Log consistency proof',
  description:
    'The proof that the log only grew between two sizes. Give the checkpoint you kept, or its size. `castellan verify FILE --key KEY` checks the answer without the server.',
  permission: 'auditLog:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    old_size: z.int().min(0).optional().describe('Log size to start from.'),
    old_checkpoint: z.string().max(4096).optional().describe('A checkpoint kept from earlier, instead of old_size.'),
    new_size: z.int().min(0).optional().describe('Log size to prove; the present one when left out.'),
  }),
  output: z.strictObject({
    format: z.literal('castellan-log-consistency/1'),
    old: z.string(),
    new: z.string(),
    key: z.string(),
    hashes: z.array(z.string()),
  }),
  run: (input, { log, call }) => log.consistencyProof(call, input),
})
