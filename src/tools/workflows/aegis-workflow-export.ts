import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.export',
  toolset: 'workflows',
  title: 'Export a workflow',
  description:
    'Read the manifest of a workflow exactly as it was registered. What it answers can be sent to aegis.workflow.create or aegis.workflow.update.',
  permission: 'workflow:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'workflow', fields: ['workflow_id', 'id'] } },
  arguments: 'aegis',
  input: z.strictObject({ name: workflowParams.name, version: workflowParams.version }),
  output: z.strictObject({ manifest_yaml: z.string(), id: z.string(), name: z.string(), version: z.string() }),
  run: (input, { workflows, call }) => workflows.export(call, input),
})
