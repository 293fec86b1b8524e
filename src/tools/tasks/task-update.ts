import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'task_update',
  toolset: 'ledger',
  trust: { carries: { as: 'task', fields: ['task_id'] } },
  title: 'Update a task',
  description:
    'Change fields of a task or move it to another status. Allowed moves: backlog → todo, cancelled; todo → in_progress, blocked, cancelled; in_progress → review, blocked, cancelled; blocked → todo, in_progress, cancelled; review → done, backlog, blocked, cancelled. done and cancelled are final.',
  permission: 'task:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  input: z.strictObject({
    task_id: params.taskId,
    status: params.status.optional(),
    progress: params.progress.optional(),
    description: params.description.optional().describe('Replaces the whole description.'),
    priority: params.priority.optional(),
    assignee: params.assignee.optional(),
    labels: params.labels.optional().describe('Replaces all labels.'),
    blocked_reason: z
      .string()
      .min(1)
      .max(2000)
      .optional()
      .describe("Why it is blocked; required when status is 'blocked'."),
    depends_on: params.dependsOn.optional().describe('Replaces the tasks that must be finished before this one.'),
  }),
  output: z.strictObject({
    task_id: z.string(),
    status: params.status,
    progress: z.number(),
    updated_at: fields.time,
    updated_by: z.string(),
    previous_status: params.status.optional().describe('Present when the status changed.'),
    warnings: z.array(z.string()).optional(),
  }),
  run: (input, { tasks, call }) => tasks.update(call, input),
})
