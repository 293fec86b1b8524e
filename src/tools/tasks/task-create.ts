import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'task_create',
  toolset: 'ledger',
  trust: { carries: { as: 'task', fields: ['task_id'] } },
  title: 'Create a task',
  description:
    'Create a task in the backlog of a project. The project is created with its first task. Use task_update to move it on, task_list to see whether it already exists.',
  permission: 'task:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    title: params.title,
    description: params.description.optional(),
    project: params.project,
    parent_id: params.taskId.optional().describe('Parent task, for a sub-task.'),
    priority: params.priority.default('normal'),
    labels: params.labels.optional(),
    assignee: params.assignee.optional().describe('Agent or user who does the task; "unassigned" when left out.'),
    estimate_hours: z.number().min(0).max(1000).optional().describe('Planned effort in hours.'),
    depends_on: params.dependsOn.optional(),
  }),
  output: z.strictObject({
    task_id: z.string(),
    status: z.literal('backlog'),
    created_at: fields.time,
    created_by: z.string(),
    sequence: z.int().describe('Place of the task in its project, from 1.'),
  }),
  run: (input, { tasks, call }) => tasks.create(call, input),
})
