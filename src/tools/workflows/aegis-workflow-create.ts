import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.create',
  toolset: 'workflows',
  title: 'Register a workflow',
  description:
    'Check a workflow manifest and register it: rules always, judges too when judge_agents are given. Use aegis.workflow.validate to check without registering, aegis.workflow.update for one that exists, aegis.workflow.run to run it.',
  permission: 'workflow:create',
  tier: 'system',
  effect: 'external',
  idempotent: false,
  rate: 'create',
  skipJudge: true,
  fails: { kind: 'conflict', field: 'deployed', is: false },
  trust: { sends: true, carries: { as: 'workflow', fields: ['workflow_id'] } },
  long: true,
  arguments: 'aegis',
  input: z.strictObject({
    manifest_yaml: workflowParams.manifest,
    force: workflowParams.force,
    task_context: z.string().max(20_000).optional().describe('What the workflow is for, told to the judges.'),
    judge_agents: z
      .array(z.string().min(1).max(256))
      .max(10)
      .optional()
      .describe('Agents that judge it; no verdict means that it is not registered.'),
    min_score: z.number().min(0).max(1).optional().describe('Score that the judges must give; 0.8 when left out.'),
    min_confidence: z.number().min(0).max(1).optional().describe('Confidence that they must have; 0.7 when left out.'),
  }),
  output: workflowFields.deployed,
  run: (input, { workflows, call }) => workflows.create(call, input),
})
