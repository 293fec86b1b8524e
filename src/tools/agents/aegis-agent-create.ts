import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { agentFields, agentParams } from './agent-params.ts'

export default defineTool({
  name: 'aegis.agent.create',
  toolset: 'agents',
  title: 'Deploy an agent',
  description:
    'Check an agent manifest and deploy it. If this version is already deployed, the answer has the status conflict and a hint, unless force is true; other versions stay. Use aegis.schema.get for the format and aegis.schema.validate to try a manifest.',
  permission: 'agent:create',
  tier: 'system',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: true,
  fails: { kind: 'conflict', field: 'deployed', is: false },
  trust: { sends: true, carries: { as: 'agent', fields: ['agent_id'] } },
  arguments: 'aegis',
  input: z.strictObject({
    manifest_yaml: agentParams.manifest,
    force: agentParams.force('Replace the version if it is deployed already.'),
    scope: agentParams.scope,
  }),
  output: agentFields.deployed,
  before: (input, { agents, call }) => agents.warnOfRuntime(call, input),
  run: (input, { agents, call }) => agents.create(call, input),
})
