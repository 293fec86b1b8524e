import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'task_get',
  toolset: 'ledger',
  trust: { carries: { as: 'task', fields: ['task_id'] } },
  title: 'Get a task',
  description:
    'Read one task with all its fields, and on request the ids of its thoughts and of its sub-tasks. Use task_list to find tasks.',
  permission: 'task:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    task_id: params.taskId,
    include_thought_trail: z.boolean().default(false).describe('Also give the ids of its thoughts, oldest first.'),
    include_dependents: z.boolean().default(false).describe('Also give the ids of its sub-tasks.'),
  }),
  output: z.strictObject({
    task_id: z.string(),
    title: z.string(),
    description: z.string(),
    project: z.string(),
    status: params.status,
    priority: params.priority,
    progress: z.number(),
    assignee: z.string(),
    labels: z.array(z.string()),
    estimate_hours: z.number().optional(),
    created_at: fields.time,
    updated_at: fields.time,
    created_by: z.string(),
    updated_by: z.string(),
    sequence: z.int(),
    parent_id: z.string().optional(),
    blocked_reason: z.string().optional(),
    depends_on: z.array(z.string()).optional(),
    thought_trail: z.array(z.string()).optional(),
    dependents: z.array(z.string()).optional(),
  }),
  run: (input, { tasks, call }) => tasks.get(call, input),
})
