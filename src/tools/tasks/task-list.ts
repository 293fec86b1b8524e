import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'task_list',
  toolset: 'ledger',
  trust: { carries: { as: 'task', fields: ['task_id'] } },
  title: 'List tasks',
  description:
    'List tasks, filtered and in pages; all filters must hold. `search` finds words in title and description. Use task_next_actions to see what to do next.',
  permission: 'task:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    project: z.string().max(256).optional().describe('Only tasks of this project.'),
    status: z.array(params.status).max(20).optional().describe('Only tasks in one of these states.'),
    priority: z.array(params.priority).max(20).optional().describe('Only tasks of one of these priorities.'),
    assignee: z.string().max(256).optional().describe('Only tasks of this assignee.'),
    label: z.string().max(64).optional().describe('Only tasks with this label.'),
    created_after: params.isoTime.optional().describe('Only tasks created after this ISO-8601 time.'),
    created_before: params.isoTime.optional().describe('Only tasks created before this ISO-8601 time.'),
    search: z.string().min(1).max(500).optional().describe('Words that title or description must contain.'),
    limit: params.limit(50, 500),
    offset: params.offset,
    sort_by: z.enum(['created', 'updated', 'priority', 'progress']).default('updated'),
    sort_order: z.enum(['asc', 'desc']).default('desc'),
  }),
  output: z.strictObject({
    tasks: z.array(
      z.strictObject({
        task_id: z.string(),
        title: z.string(),
        project: z.string(),
        status: z.string(),
        priority: z.string(),
        progress: z.number(),
        assignee: z.string(),
        created_at: fields.time,
        updated_at: fields.time,
      }),
    ),
    total_count: z.int().describe('How many match, over all pages.'),
    returned_count: z.int(),
    offset: z.int(),
    limit: z.int(),
  }),
  run: (input, { tasks, call }) => tasks.list(call, input),
})
