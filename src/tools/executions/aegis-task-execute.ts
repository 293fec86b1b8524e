import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'aegis.task.execute',
  toolset: 'executions',
  title: 'Run an agent',
  description:
    'Start an execution of a deployed agent: it iterates until its validators are satisfied. Answers at once; use aegis.task.wait to wait for the end, aegis.task.logs to see what happens. Find agents with aegis.agent.list.',
  permission: 'agent:execute',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  begins: { field: 'execution_id', waitTool: 'aegis.task.wait' },
  arguments: 'aegis',
  otherNames: { agent: 'agent_id' },
  input: z.strictObject({
    agent_id: z.string().min(1).max(128).describe('UUID or name of the agent.'),
    intent: z.string().max(65_536).optional().describe('What the agent should accomplish, in words.'),
    input: z
      .record(z.string().max(256), z.unknown())
      .optional()
      .describe("Data for the agent, checked against the schema that it declares; prompt holds the task's text."),
    context_overrides: z
      .record(z.string().max(256), z.unknown())
      .optional()
      .describe("Further variables for the agent's prompt template, by name."),
    version: z.string().min(1).max(64).optional().describe('Version of the agent; the latest when left out.'),
    workspace: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe(
        'Id or name of a running workspace of yours to work in, instead of a new one. It is kept afterwards, and keeps its image, network and size.',
      ),
  }),
  output: z.strictObject({ execution_id: z.string(), status: z.literal('started') }),
  run: (input, { executions, call }) => executions.execute(call, input),
})
