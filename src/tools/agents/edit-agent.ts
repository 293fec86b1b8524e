import { z } from 'zod'
import { profileFields, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'edit_agent',
  toolset: 'agents',
  title: 'Edit an agent',
  description:
    'Change an agent: its name, prompt, sharing, tools or the agents that it delegates to. What you leave out stays. A new prompt, description, label or tool is a new version of its manifest; executions that run keep theirs. Use aegis.agent.update to replace the whole manifest.',
  permission: 'agent:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  input: z.strictObject({
    id: profileParams.idOrName('Id of the agent, or its name.'),
    subAgentIds: profileParams.subAgentIds.optional().describe('Agents to add as those it can hand a task on to.'),
    toolAssignments: profileParams.toolAssignments.optional().describe('Tools to add, or whose credentials change.'),
    description: profileParams.description.optional(),
    icon: profileParams.icon.optional(),
    knowledgeBaseIds: profileParams.knowledgeBaseIds.optional().describe('Its knowledge bases from now on.'),
    labels: profileParams.labels.optional().describe('Its labels from now on.'),
    name: profileParams.name.optional().describe('Its new name. Its slug stays.'),
    connectorIds: profileParams.connectorIds.optional().describe('Its knowledge connectors from now on.'),
    scope: profileParams.scope.optional(),
    toolExposureMode: profileParams.exposure.optional(),
    considerContextUntrusted: profileParams.considerContextUntrusted.optional(),
    suggestedPrompts: profileParams.suggestedPrompts.optional().describe('Its suggested prompts from now on.'),
    systemPrompt: profileParams.systemPrompt.optional(),
    teams: profileParams.teams.optional().describe('The teams that have it from now on, for the scope team.'),
  }),
  output: profileFields.agent,
  run: (input, { agents, call }) => agents.editAgent(call, input),
})
