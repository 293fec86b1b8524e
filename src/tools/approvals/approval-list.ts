import { z } from 'zod'
import { params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { approvalFields } from './approval-fields.ts'

export default defineTool({
  name: 'approval_list',
  toolset: 'workflows',
  trust: { reads: 'approval' },
  title: 'See what waits for a person',
  description:
    'List what waits for an answer of a person, newest first: calls that a policy lets through only with an approval, and Human states of workflows. Answer with approval_answer, or a Human state in other words with aegis.workflow.signal. Your own, or all of the tenant for administrators.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    limit: params.limit(50, 200),
    kind: z.enum(['tool_call', 'human_state']).optional().describe('Only this kind; both if left out.'),
    answered: z
      .boolean()
      .default(false)
      .describe('Also what was answered, or what nobody answered in time; Human states of the newest runs.'),
    execution_id: z.string().min(1).max(64).optional().describe('Only what this run waits for.'),
  }),
  output: z.strictObject({ approvals: z.array(approvalFields) }),
  run: (input, { approvals, call }) => approvals.list(call, input),
})
