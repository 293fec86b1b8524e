import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { agentParams } from './agent-params.ts'

export default defineTool({
  name: 'aegis.agent.delete',
  toolset: 'agents',
  title: 'Delete an agent',
  description:
    'Remove a deployed agent with all its versions, permanently. Running executions continue. Use aegis.agent.export first to keep the manifest.',
  permission: 'agent:delete',
  tier: 'operator',
  effect: 'delete',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  otherNames: { agent: 'agent_id' },
  input: z.strictObject({ agent_id: agentParams.agent('Id of the agent, or its name.') }),
  output: z.strictObject({ agent_id: z.string(), deleted: z.boolean() }),
  run: (input, { agents, call }) => agents.remove(call, input),
})
