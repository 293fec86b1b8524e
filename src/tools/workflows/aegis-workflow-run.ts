import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.run',
  toolset: 'workflows',
  title: 'Run a workflow',
  description:
    'Start an execution of a workflow and answer its id at once. Wait for the end with aegis.workflow.wait, look with aegis.workflow.status and aegis.workflow.logs, answer its questions with aegis.workflow.signal.',
  permission: 'workflow:run',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  begins: { field: 'execution_id', waitTool: 'aegis.workflow.wait' },
  arguments: 'aegis',
  input: z.strictObject({
    name: workflowParams.name,
    intent: z.string().max(20_000).optional().describe('The goal of this run in plain words.'),
    input: workflowParams.data.optional().describe('Input, checked against the schema that the workflow has for it.'),
    blackboard: workflowParams.data.optional().describe('Values to put on the blackboard before the start.'),
    version: workflowParams.version,
    tenant_id: workflowParams.tenant,
  }),
  output: z.strictObject({ execution_id: z.string(), status: z.literal('started') }),
  run: (input, { workflows, call }) => workflows.executions.run(call, input),
})
