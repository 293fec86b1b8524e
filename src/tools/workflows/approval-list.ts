import { z } from 'zod'
import { fields, params } from '../params.ts'
import { acceptedAnswers } from '../run-waiting.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'approval_list',
  toolset: 'workflows',
  title: 'See what waits for a person',
  description:
    'List the runs of workflows that wait for an answer of a person, with the question of each, newest first. Answer one with aegis.workflow.signal. Your own runs, or all of the tenant for administrators.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  audit: 'digest',
  input: z.strictObject({
    limit: params.limit(50, 200),
    execution_id: z.string().min(1).max(64).optional().describe('Only what this run waits for.'),
  }),
  output: z.strictObject({
    approvals: z.array(
      z.strictObject({
        id: z.string().describe('That of the run: a run asks one thing at a time.'),
        execution_id: z.string(),
        workflow_id: z.string(),
        workflow_name: z.string(),
        state: z.string().nullable(),
        prompt: z.string().nullable(),
        default_response: z.string().nullable().describe('Taken as the answer when nobody gives one in time.'),
        accepted_answers: acceptedAnswers,
        requested_at: fields.time,
        expires_at: fields.time.nullable(),
      }),
    ),
  }),
  run: (input, { workflows, call }) => workflows.approvals.list(call, input),
})
