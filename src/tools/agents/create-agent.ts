import { z } from 'zod'
import { newProfileParams, profileFields, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'create_agent',
  toolset: 'agents',
  title: 'Create an agent',
  description:
    'Make an agent from a name, a system prompt, tools and other agents to delegate to. It is yours alone unless you share it. Run it with aegis.task.execute. Use aegis.agent.create for a whole manifest with validators, a schedule or a workspace.',
  permission: 'agent:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  input: z.strictObject({
    name: profileParams.name.describe('Name of the agent, for people.'),
    scope: profileParams.scope.optional(),
    ...newProfileParams,
    knowledgeBaseIds: profileParams.knowledgeBaseIds.optional(),
    connectorIds: profileParams.connectorIds.optional(),
    subAgentIds: profileParams.subAgentIds.optional(),
    suggestedPrompts: profileParams.suggestedPrompts.optional(),
    systemPrompt: profileParams.systemPrompt.optional(),
    toolAssignments: profileParams.toolAssignments.optional().describe('Tools that it may use.'),
  }),
  output: profileFields.agent,
  run: (input, { agents, call }) => agents.createAgent(call, input),
})
