import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.delete',
  toolset: 'workflows',
  title: 'Delete a workflow',
  description:
    'Remove a workflow with all its versions. Running executions continue; new ones are no longer possible. Use aegis.workflow.remove for the record of one execution.',
  permission: 'workflow:delete',
  tier: 'operator',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  input: z.strictObject({ name: workflowParams.name }),
  output: z.strictObject({ workflow_id: z.string(), deleted: z.boolean() }),
  run: (input, { workflows, call }) => workflows.remove(call, input),
})
