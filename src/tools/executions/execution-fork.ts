import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { executionParams } from './execution-fields.ts'

export default defineTool({
  name: 'execution_fork',
  toolset: 'executions',
  trust: { reads: 'run' },
  title: 'Fork an execution',
  description:
    'Continue a copy of an execution after one of its recorded iterations, with the workspace as it was then, and if you like with another input, model or number of iterations. The original stays as it is. The files of the newest iterations are kept, for some days. See the iterations with aegis.task.logs; to run the agent afresh use aegis.task.execute.',
  permission: 'agent:execute',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  begins: { field: 'execution_id', waitTool: 'aegis.task.wait' },
  input: z.strictObject({
    execution_id: executionParams.executionId,
    iteration: z
      .int()
      .min(0)
      .max(1_000)
      .describe(
        'The last iteration to keep; the copy continues with the next. 0 keeps none and starts from the beginning.',
      ),
    intent: z.string().min(1).max(65_536).optional().describe('Another task in words; that of the original otherwise.'),
    input: z.record(z.string().max(256), z.unknown()).optional().describe('Another input for the agent.'),
    model: z.string().min(1).max(128).optional().describe('Alias of another model.'),
    max_iterations: z
      .int()
      .min(1)
      .max(1_000)
      .optional()
      .describe('Maximum number of iterations, including those that are kept.'),
  }),
  output: z.strictObject({
    execution_id: z.string().describe('UUID of the copy.'),
    forked_from: z.string(),
    iteration: z.int(),
    status: z.literal('started'),
  }),
  run: (input, { executions, call }) => executions.fork(call, input),
})
