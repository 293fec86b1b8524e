import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'merkle_root',
  toolset: 'ledger',
  title: 'Merkle root of a session',
  description:
    'The Merkle root over the records of an audit session: the frozen one, or the present one while it is open.',
  permission: 'trail:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ session_id: params.sessionId }),
  output: z.strictObject({
    session_id: z.string(),
    merkle_root: fields.hash,
    is_finalized: z.boolean(),
    as_of: fields.time.describe('When the root last changed.'),
  }),
  run: (input, { trail, call }) => trail.merkleRoot(call, input),
})
