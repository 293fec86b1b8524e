import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'project_list',
  toolset: 'ledger',
  title: 'List projects',
  description: 'List the projects by name, each with the number of its tasks.',
  permission: 'project:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ limit: params.limit(50, 500), offset: params.offset }),
  output: z.strictObject({
    projects: z.array(
      z.strictObject({ project: z.string(), task_count: z.int(), created_at: fields.time, created_by: z.string() }),
    ),
    total_count: z.int(),
    offset: z.int(),
    limit: z.int(),
  }),
  run: (input, { tasks, call }) => tasks.listProjects(call, input),
})
