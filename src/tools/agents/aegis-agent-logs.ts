import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { agentParams } from './agent-params.ts'

export default defineTool({
  name: 'aegis.agent.logs',
  toolset: 'agents',
  trust: { reads: 'run' },
  title: 'Read the activity of an agent',
  description:
    'Read the history of an agent (deployed, updated) and what its executions did: the oldest first, execution by execution, page by page. `total` counts all events that you may see; use aegis.task.logs for a single execution.',
  permission: 'agent:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  otherNames: { agent: 'agent_id' },
  input: z.strictObject({
    agent_id: agentParams.agent('Id of the agent, or its name.'),
    limit: z.int().min(1).max(1_000_000).default(50).describe('How many events at most; pages have at most 200.'),
    offset: params.offset,
  }),
  output: z.strictObject({
    tool: z.literal('aegis.agent.logs'),
    agent_id: z.string(),
    events: z.array(z.strictObject({ ...fields.event, payload: fields.anyJson, recorded_at: fields.time })),
    total: z.int(),
    limit: z.int(),
    offset: z.int(),
  }),
  run: (input, { agents, call }) => agents.logs(call, input),
})
