import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { executionFields, executionParams } from './execution-fields.ts'

export default defineTool({
  name: 'aegis.task.logs',
  toolset: 'executions',
  trust: { reads: 'run' },
  title: 'Read the events of an execution',
  description:
    'Events of one execution of an agent in order, page by page: iterations, model and tool calls, verdicts. A long payload is shown by its beginning.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({
    execution_id: executionParams.executionId,
    limit: params.cappedLimit(50, limits.runEventsPageMax),
    offset: z.int().min(0).max(Number.MAX_SAFE_INTEGER).default(0).describe('Events to leave out at the beginning.'),
  }),
  output: z.strictObject({
    tool: z.literal('aegis.task.logs'),
    execution_id: z.string(),
    status: executionFields.status,
    events: z.array(
      z.strictObject({
        sequence: z.int(),
        event_type: z.string(),
        payload: z.record(z.string(), z.unknown()),
        recorded_at: fields.time,
      }),
    ),
    total: z.int().describe('All events there are.'),
    limit: z.int(),
    offset: z.int(),
  }),
  run: (input, { executions, call }) => executions.logs(call, input),
})
