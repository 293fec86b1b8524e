import { z } from 'zod'
import { bulkFailure, bulkOutput, bulkParams, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'bulk_assign_tools_to_agents',
  toolset: 'agents',
  title: 'Assign tools to agents',
  description:
    'Give several tools to several agents at once, or change the credentials that their tools are called with. Each assignment is independent: the answer says which succeeded, which failed and why, and which were there already. Use edit_agent for everything else of one agent.',
  permission: 'agent:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  fails: bulkFailure,
  trust: { governs: true },
  input: z.strictObject({
    assignments: bulkParams({ agentId: profileParams.idOrName('Id or name of the agent.') }).describe(
      'Tools, each with its agent.',
    ),
  }),
  output: bulkOutput({ agentId: z.string() }),
  run: (input, { agents, call }) => agents.assignTools(call, input),
})
