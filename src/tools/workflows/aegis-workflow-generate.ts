import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'aegis.workflow.generate',
  toolset: 'workflows',
  title: 'Generate a workflow',
  description:
    'Have a workflow written and registered from an objective in plain words. Answers at once; wait with aegis.workflow.wait, whose blackboard is the registered workflow with its id and manifest. Search with aegis.workflow.search first: an existing workflow is better than a new one.',
  permission: 'workflow:create',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  begins: { field: 'execution_id', waitTool: 'aegis.workflow.wait' },
  arguments: 'aegis',
  input: z.strictObject({
    input: z.string().min(1).max(limits.intentCharsMax).describe('What the workflow should achieve, in plain words.'),
  }),
  output: z.strictObject({ execution_id: z.string(), status: z.literal('started') }),
  run: (input, { authoring, call }) => authoring.generate(call, 'workflow', input),
})
