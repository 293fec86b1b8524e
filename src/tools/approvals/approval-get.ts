import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { approvalFields, approvalId } from './approval-fields.ts'

export default defineTool({
  name: 'approval_get',
  toolset: 'workflows',
  trust: { reads: 'approval' },
  title: 'Read what a person is asked',
  description:
    'Read one approval: which call with which arguments, why, who asks, until when, and what was answered. Use approval_list to find it, approval_answer to answer it.',
  permission: 'approval:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ id: approvalId }),
  output: z.strictObject({ approval: approvalFields }),
  run: (input, { approvals, call }) => approvals.get(call, input),
})
