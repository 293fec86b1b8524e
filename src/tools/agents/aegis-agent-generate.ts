import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'aegis.agent.generate',
  toolset: 'agents',
  title: 'Generate an agent',
  description:
    'Have an agent written and deployed from a request in plain words. Answers at once; wait with aegis.agent.wait, whose output is the deployed agent with its id and manifest. Search with aegis.agent.search first: an existing agent is better than a new one.',
  permission: 'agent:create',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  begins: { field: 'execution_id', waitTool: 'aegis.agent.wait' },
  arguments: 'aegis',
  input: z.strictObject({
    input: z.string().min(1).max(limits.intentCharsMax).describe('What the agent should do, in plain words.'),
  }),
  output: z.strictObject({ execution_id: z.string(), status: z.literal('started') }),
  run: (input, { authoring, call }) => authoring.generate(call, 'agent', input),
})
