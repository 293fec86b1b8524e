import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.logs',
  toolset: 'workflows',
  trust: { reads: 'run' },
  title: 'Read the events of an execution',
  description:
    'Read what happened in a workflow execution, oldest first, page by page; total counts all events. Use aegis.workflow.status for its status.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({
    execution_id: workflowParams.execution,
    limit: params.cappedLimit(50, limits.runEventsPageMax),
    offset: params.offset,
  }),
  output: z.strictObject({
    tool: z.literal('aegis.workflow.logs'),
    execution_id: z.string(),
    status: workflowFields.status,
    events: z.array(
      z.strictObject({
        sequence: z.int(),
        ...fields.event,
        state_name: z.string().nullable(),
        iteration_number: z.int().nullable(),
        payload: workflowFields.data,
        recorded_at: fields.time,
      }),
    ),
    total: z.int(),
    limit: z.int(),
    offset: z.int(),
  }),
  run: (input, { workflows, call }) => workflows.executions.logs(call, input),
})
