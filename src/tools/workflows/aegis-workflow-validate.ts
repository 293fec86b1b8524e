import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.validate',
  toolset: 'workflows',
  title: 'Check a workflow manifest',
  description:
    'Check a workflow manifest and list everything that is wrong with it, without registering anything. Warnings name old spellings, unreachable states and cycles without an exit.',
  permission: 'workflow:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  fails: { kind: 'input', field: 'valid', is: false },
  arguments: 'aegis',
  input: z.strictObject({ manifest_yaml: workflowParams.manifest }),
  output: z.strictObject({ valid: z.boolean(), errors: z.array(z.string()).nullable(), warnings: z.array(z.string()) }),
  run: (input, { workflows, call }) => workflows.validate(call, input),
})
