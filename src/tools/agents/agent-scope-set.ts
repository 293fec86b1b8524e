import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { agentFields, agentParams } from './agent-params.ts'

export default defineTool({
  name: 'agent_scope_set',
  toolset: 'agents',
  title: 'Change who sees an agent',
  description:
    'Make an agent visible to all tenants, or to your own alone. It keeps its id and its versions, and executions go on. For operators. Use aegis.workflow.promote for workflows.',
  permission: 'agent:update',
  tier: 'operator',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  otherNames: { agent: 'agent_id' },
  input: z.strictObject({
    agent_id: agentParams.agent('Id of the agent, or its name.'),
    scope: agentFields.scope.describe('Who shall see it.'),
  }),
  output: z.strictObject({
    agent_id: z.string(),
    name: z.string(),
    scope: agentFields.scope,
    previous_scope: agentFields.scope,
  }),
  run: (input, { agents, call }) => agents.setScope(call, input),
})
