import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'project_create',
  toolset: 'ledger',
  title: 'Create a project',
  description:
    'Create a project before its first task. Needed only where the server is configured with strict projects; otherwise task_create makes the project.',
  permission: 'project:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ project: params.project }),
  output: z.strictObject({
    project: z.string(),
    task_count: z.int(),
    created_at: fields.time,
    created_by: z.string(),
  }),
  run: (input, { tasks, call }) => tasks.createProject(call, input),
})
