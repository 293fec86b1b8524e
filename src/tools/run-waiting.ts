import { z } from 'zod'
import { runStatuses } from '../contract/run-status.ts'
import { fields } from './params.ts'

export const acceptedAnswers = z
  .array(z.string())
  .nullable()
  .describe('The answers that lead on, case and spaces aside; null when any text may.')

/** The question that a run asks a person, and how to answer it. */
export const waitingFields = z
  .strictObject({
    execution_id: z.string().describe('The run that asks: this one, or a workflow below it.'),
    state: z.string().nullable(),
    prompt: z.string().nullable(),
    default_response: z.string().nullable().describe('Taken as the answer when nobody gives one in time.'),
    accepted_answers: acceptedAnswers,
    requested_at: fields.time,
    expires_at: fields.time.nullable(),
    answer_with: z.strictObject({
      tool: z
        .enum(['aegis.workflow.signal', 'approval_answer'])
        .describe('approval_answer for a call that must be approved.'),
      arguments: z.strictObject({
        execution_id: z.string().optional(),
        response: z.string().optional(),
        id: z.string().optional(),
        decision: z.string().optional(),
      }),
      http: z.string().describe('The same over HTTP; the body is {response}, or may be left out for an approval.'),
    }),
  })
  .nullable()
  .describe('The question that it waits with for a person; null when it waits for none.')

/** The rules of the tools that wait for a run of any kind. */
export const waitingRules = {
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  waits: true,
} as const

/** Shared by the tools that wait for a workflow or an intent. */
export const runWaiting = {
  ...waitingRules,
  input: z.strictObject({
    execution_id: z.string().min(1).max(64).describe('Id of the run.'),
    poll_interval_seconds: z
      .int()
      .min(1)
      .max(3600)
      .default(5)
      .describe('Seconds after which progress is reported though nothing has changed. The end is noticed at once.'),
    timeout_seconds: z.int().min(1).max(86_400).default(300).describe('Longest time to wait, over several calls.'),
  }),
  output: z.strictObject({
    execution_id: z.string(),
    workflow_id: z.string().optional(),
    status: z.enum(runStatuses),
    current_state: z.string().nullable().describe('State that it is in.'),
    blackboard: z.record(z.string(), z.unknown()).optional(),
    started_at: fields.time.optional(),
    last_transition_at: fields.time.optional(),
    output: fields.anyJson.optional(),
    error: z
      .strictObject({ code: z.string(), message: z.string(), details: z.record(z.string(), z.unknown()) })
      .nullable()
      .optional(),
    waiting_for: waitingFields.optional(),
    timed_out: z.boolean().optional(),
    message: z.string().optional(),
  }),
} as const
