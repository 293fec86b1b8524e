import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { executionFields } from './execution-fields.ts'

export default defineTool({
  name: 'aegis.task.list',
  toolset: 'executions',
  title: 'List executions',
  description: 'Executions of agents, the newest first, of one agent if given. Start one with aegis.task.execute.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  otherNames: { agent: 'agent_id' },
  input: z.strictObject({
    agent_id: z.string().min(1).max(128).optional().describe('UUID or name of an agent.'),
    limit: z.int().min(1).max(limits.runListMax).default(20).describe('Executions at most.'),
  }),
  output: z.strictObject({
    executions: z.array(
      z.strictObject({
        id: z.string(),
        agent_id: z.string(),
        status: executionFields.status,
        started_at: fields.time,
      }),
    ),
  }),
  run: (input, { executions, call }) => executions.list(call, input),
})
