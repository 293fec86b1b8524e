import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { approvalId } from './approval-fields.ts'

export default defineTool({
  name: 'approval_answer',
  toolset: 'workflows',
  trust: { reads: 'approval' },
  title: 'Approve or deny',
  description:
    'Answer an approval, for people only: approve lets exactly that call through once, deny refuses it. Never by an agent, nor by a program of the person in whose name it is asked: that person uses castellan approvals. Read it first with approval_get. A Human state takes other words with aegis.workflow.signal.',
  permission: 'approval:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    id: approvalId,
    decision: z.enum(['approve', 'deny']).describe('Whether the call may be made.'),
    note: z
      .string()
      .min(1)
      .max(limits.approvalNoteCharsMax)
      .optional()
      .describe('For the record, and told to who asked: why.'),
  }),
  output: z.strictObject({
    id: z.string(),
    kind: z.enum(['tool_call', 'human_state']),
    status: z.enum(['pending', 'approved', 'denied', 'used', 'withdrawn']),
    message: z.string(),
  }),
  run: (input, { approvals, call }) => approvals.answer(call, input),
})
