import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'audit_verify_chain',
  toolset: 'ledger',
  title: 'Verify a chain',
  description:
    'Check every record of an audit session or a task: its hash, its link, its row and its entry in the log, the rows of the tasks, and the log against its signed checkpoint. Give session_id or task_id.',
  permission: 'trail:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  fails: { kind: 'conflict', field: 'chain_valid', is: false },
  onHaltedLog: 'answer',
  input: z.strictObject({
    session_id: params.sessionId.optional(),
    task_id: params.taskId.optional(),
    full_trace: z.boolean().default(false).describe('Also give the hash of every record.'),
  }),
  output: z.strictObject({
    session_id: z.string().optional(),
    task_id: z.string().optional(),
    chain_valid: z.boolean(),
    total_records: z.int(),
    integrity_score: z.number().describe('Percentage of records that verify.'),
    broken_links: z.array(z.strictObject({ position: z.int(), expected_hash: z.string(), actual_hash: z.string() })),
    broken_links_truncated: z.literal(true).optional().describe('Present when there are more than are listed.'),
    verified_at: fields.time,
    log: z.strictObject({
      size: z.int(),
      valid: z.boolean(),
      first_bad_seq: z.int().nullable(),
      checkpoint: z.enum(['matched', 'mismatch', 'none']),
    }),
    trace: z
      .array(
        z.strictObject({
          position: z.int(),
          kind: z.string(),
          task_id: z.string(),
          hash: z.string(),
          log_seq: z.int(),
        }),
      )
      .optional(),
    trace_truncated: z.boolean().optional(),
  }),
  run: (input, { trail, call }) => trail.verifyChain(call, input),
})
