import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { agentFields, agentParams } from './agent-params.ts'

export default defineTool({
  name: 'aegis.agent.update',
  toolset: 'agents',
  title: 'Update an agent',
  description:
    'Deploy a further version of an agent that exists, or replace one with force. Use aegis.agent.create for a new name, aegis.agent.export to get the manifest that is to be changed.',
  permission: 'agent:update',
  tier: 'system',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: true,
  fails: { kind: 'conflict', field: 'deployed', is: false },
  trust: { sends: true, carries: { as: 'agent', fields: ['agent_id'] } },
  arguments: 'aegis',
  otherNames: { agent: 'agent_id' },
  input: z.strictObject({
    manifest_yaml: agentParams.manifest,
    force: agentParams.force('Replace the version if it exists already.'),
    scope: agentParams.scope,
    agent_id: agentParams
      .agent('Id or name of the agent that you mean; the manifest of another is then refused.')
      .optional(),
  }),
  output: agentFields.deployed,
  before: (input, { agents, call }) => agents.warnOfRuntime(call, input),
  run: (input, { agents, call }) => agents.update(call, input),
})
