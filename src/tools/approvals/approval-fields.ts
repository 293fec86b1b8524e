import { z } from 'zod'
import { fields } from '../params.ts'
import { acceptedAnswers } from '../run-waiting.ts'

/** What a person is asked. What belongs to the other kind is null. */
export const approvalFields = z.strictObject({
  id: z.string().describe('Of the approval; for a Human state that of its run, which asks one thing at a time.'),
  kind: z.enum(['tool_call', 'human_state']).describe('A call that a policy holds up, or a Human state of a workflow.'),
  status: z
    .enum(['pending', 'approved', 'denied', 'used', 'expired', 'withdrawn', 'answered'])
    .describe(
      'used: the call was made. withdrawn: the run that asked waits no more. answered: note has the answer to a Human state.',
    ),
  execution_id: z.string().nullable().describe('The run that waits; null if none does.'),
  workflow_id: z.string().nullable(),
  workflow_name: z.string().nullable(),
  state: z.string().nullable(),
  prompt: z.string().nullable(),
  default_response: z.string().nullable().describe('Taken as the answer when nobody gives one in time.'),
  accepted_answers: acceptedAnswers,
  tool: z.string().nullable(),
  arguments: fields.anyJson.describe('Of the call, without secrets, and shortened if long.'),
  arguments_masked: z.boolean().describe('Whether something is left out of the arguments.'),
  arguments_digest: z
    .string()
    .nullable()
    .describe('Of all arguments, as the log has it: the approval is for these alone.'),
  reason: z.string().nullable().describe('Why the policy asks.'),
  policy: z.string().nullable(),
  requested_by: z.string().nullable(),
  context: z.string().nullable().describe('Where the call is to be made; it is approved for there alone.'),
  call_id: z.string().nullable(),
  requested_at: fields.time,
  expires_at: fields.time.nullable(),
  answered_by: z.string().nullable(),
  answered_at: fields.time.nullable(),
  note: z.string().nullable(),
})

export const approvalId = z.string().min(1).max(64).describe('Id of the approval, or of the run of a Human state.')
