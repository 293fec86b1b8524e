import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { scheduleFields } from '../schedule-fields.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'workflow_info',
  toolset: 'workflows',
  title: 'Show a workflow',
  description:
    'Show one workflow with all its versions, and when it runs by itself. Use aegis.workflow.export to get a manifest, aegis.workflow.list to see which workflows there are.',
  permission: 'workflow:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'workflow', fields: ['workflow_id', 'id'] } },
  input: z.strictObject({ name: workflowParams.name }),
  output: z.strictObject({
    id: z.string(),
    name: z.string(),
    version: z.string().describe('The latest.'),
    initial_state: z.string(),
    scope: workflowFields.scope,
    description: z.string(),
    labels: workflowFields.labels,
    schedule: scheduleFields.displayed,
    suggested_schedule: scheduleFields.suggested,
    versions: z
      .array(
        z.strictObject({
          version: z.string(),
          created_at: fields.time.nullable().describe('Null for those that come with the program.'),
          updated_at: fields.time.nullable(),
          created_by: z.string().nullable(),
          latest: z.boolean(),
        }),
      )
      .describe('The highest first.'),
  }),
  run: (input, { workflows, call }) => workflows.info(call, input),
})
