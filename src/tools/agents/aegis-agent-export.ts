import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { agentParams } from './agent-params.ts'

export default defineTool({
  name: 'aegis.agent.export',
  toolset: 'agents',
  title: 'Export an agent',
  description:
    'Give the manifest of an agent, exactly as it was deployed: its latest version unless you name one. Templates can be exported too.',
  permission: 'agent:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  arguments: 'aegis',
  otherNames: { agent: 'name', agent_id: 'name' },
  input: z.strictObject({ name: agentParams.agent('Name of the agent, or its id.'), version: agentParams.version }),
  output: z.strictObject({ manifest_yaml: z.string(), id: z.string(), name: z.string(), version: z.string() }),
  run: (input, { agents, call }) => agents.export(call, input),
})
