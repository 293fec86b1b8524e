import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { executionFields, executionParams } from './execution-fields.ts'

export default defineTool({
  name: 'execution_replay',
  toolset: 'executions',
  trust: { reads: 'run' },
  title: 'Replay an execution',
  description:
    'Run the decisions of an execution again against its recorded answers of models and tools, and show the first difference: with the present program, and with the manifest of another version if given. Nothing is called and nothing changes. To go on from a recorded iteration use execution_fork.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    execution_id: executionParams.executionId,
    version: z.string().min(1).max(64).optional().describe('Version of the agent to decide by; its own otherwise.'),
  }),
  output: z.strictObject({
    execution_id: z.string(),
    version: z.string().describe('Of the manifest that it was decided by.'),
    same: z.boolean(),
    steps: z.int().describe('Recorded steps that were answered.'),
    recorded_status: executionFields.status,
    replayed_status: z.enum(['completed', 'failed']).nullable().describe('Null when the record ends before.'),
    difference: z
      .strictObject({
        kind: z
          .enum(['step', 'note', 'unused', 'outcome'])
          .describe('A step that has no record, another event, a recorded step not taken, another end.'),
        step: z.string().nullable(),
        sequence: z.int().nullable().describe('Of the event in aegis.task.logs.'),
        iteration: z.int().nullable(),
        recorded: z.string().nullable().describe('JSON, shortened.'),
        replayed: z.string().nullable().describe('JSON, shortened.'),
      })
      .nullable(),
  }),
  run: (input, { executions, call }) => executions.replay(call, input),
})
