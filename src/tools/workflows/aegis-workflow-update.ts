import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.update',
  toolset: 'workflows',
  title: 'Update a workflow',
  description:
    'Register another version of a workflow that exists; earlier versions stay. With force the same version is replaced. Use aegis.workflow.create for a new one.',
  permission: 'workflow:update',
  tier: 'system',
  effect: 'external',
  idempotent: false,
  rate: 'create',
  skipJudge: true,
  fails: { kind: 'conflict', field: 'deployed', is: false },
  trust: { sends: true, carries: { as: 'workflow', fields: ['workflow_id'] } },
  long: true,
  arguments: 'aegis',
  input: z.strictObject({ manifest_yaml: workflowParams.manifest, force: workflowParams.force }),
  output: workflowFields.deployed,
  run: (input, { workflows, call }) => workflows.update(call, input),
})
