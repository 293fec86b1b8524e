import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'merkle_finalize',
  toolset: 'ledger',
  title: 'Finalise a session',
  description:
    'Freeze an audit session: build the Merkle tree over its records and store the root permanently. Later records are not in it. Use merkle_root to read the root without freezing.',
  permission: 'trail:finalize',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    session_id: params.sessionId,
    task_id: params.taskId.optional().describe('Include only the records of this task.'),
  }),
  output: z.strictObject({
    session_id: z.string(),
    merkle_root: fields.hash,
    tree_depth: z.int().describe('Levels of the tree.'),
    leaf_count: z.int(),
    finalized_at: fields.time,
    frozen: z.literal(true),
  }),
  run: (input, { trail, call }) => trail.finalize(call, input),
})
