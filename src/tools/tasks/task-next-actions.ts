import { z } from 'zod'
import { params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'task_next_actions',
  toolset: 'ledger',
  trust: { carries: { as: 'task', fields: ['task_id'] } },
  title: 'Next actions',
  description:
    'What to work on next: the tasks in todo, those whose dependencies are finished first, then by priority. Without a project, the one whose task changed last.',
  permission: 'task:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    project: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe('Project slug; the most recently active one when left out.'),
    limit: params.limit(20, 100),
    include_blocked: z.boolean().default(false).describe('Also list blocked tasks with their reasons.'),
  }),
  output: z.strictObject({
    next_actions: z.array(
      z.strictObject({
        task_id: z.string(),
        title: z.string(),
        priority: params.priority,
        assignee: z.string(),
        estimate_hours: z.number().optional(),
        parent_id: z.string().optional(),
        dependencies_unmet: z.int().optional().describe('How many of its dependencies are unfinished.'),
      }),
    ),
    count: z.int(),
    project: z.string(),
    blocked: z.array(z.strictObject({ task_id: z.string(), title: z.string(), blocked_reason: z.string() })).optional(),
  }),
  run: (input, { tasks, call }) => tasks.nextActions(call, input),
})
