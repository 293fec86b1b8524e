import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'log_inclusion_proof',
  toolset: 'log',
  title: 'Log inclusion proof',
  description:
    'One log entry with the proof that it is in the log. Save the answer to a file: `castellan verify FILE --key KEY` checks it without the server.',
  permission: 'auditLog:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    seq: z.int().min(0).describe('Position of the entry, from 0.'),
    size: z.int().min(1).optional().describe('Log size to prove against; the present one when left out.'),
  }),
  output: z.strictObject({
    format: z.literal('castellan-log-proof/1'),
    checkpoint: z.string(),
    key: z.string(),
    index: z.int(),
    size: z.int(),
    record: z.string(),
    hashes: z.array(z.string()),
  }),
  run: (input, { log, call }) => log.inclusionProof(call, input),
})
