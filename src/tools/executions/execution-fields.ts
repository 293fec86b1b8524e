import { z } from 'zod'
import { runStatuses } from '../../contract/run-status.ts'
import { fields } from '../params.ts'
import { waitingRules } from '../run-waiting.ts'

export const executionParams = {
  executionId: z.string().min(1).max(128).describe('UUID of the execution.'),
  pollInterval: z.int().min(1).max(3_600).default(10).describe('Seconds between reports of progress.'),
  timeout: z
    .int()
    .min(1)
    .max(86_400)
    .default(300)
    .describe('Seconds to wait. One call waits 45 at most; its answer then says to call again.'),
} as const

export const executionFields = {
  status: z.enum(runStatuses),
  state: {
    execution_id: z.string(),
    iteration_count: z.int(),
    last_output: z.string().nullable(),
    last_error: z.string().nullable(),
    started_at: fields.time,
    ended_at: fields.time.nullable(),
  },
} as const

/** Shared by the tools that wait for an execution. */
export const executionWaiting = {
  ...waitingRules,
  toolset: 'executions',
  trust: { reads: 'run' },
  input: z.strictObject({
    execution_id: executionParams.executionId,
    poll_interval_seconds: executionParams.pollInterval,
    timeout_seconds: executionParams.timeout,
  }),
  output: z.strictObject({
    ...executionFields.state,
    status: z.enum([...runStatuses, 'timed_out']),
    timed_out: z.boolean().optional().describe('Whether the wait ended before the execution did.'),
    message: z.string().optional(),
  }),
} as const
