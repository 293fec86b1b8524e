import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { agentFields, agentParams } from './agent-params.ts'

export default defineTool({
  name: 'aegis.agent.create',
  toolset: 'agents',
  title: 'Deploy an agent',
  description:
    'Check an agent manifest and deploy it. A version that is deployed already is answered with status conflict and a hint, unless force is true; other versions stay beside it. Use aegis.schema.get for the format and aegis.schema.validate to try a manifest.',
  permission: 'agent:create',
  tier: 'system',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: true,
  audit: 'digest',
  arguments: 'aegis',
  input: z.strictObject({
    manifest_yaml: agentParams.manifest,
    force: agentParams.force('Replace the version if it is deployed already.'),
    scope: agentParams.scope,
  }),
  output: agentFields.deployed,
  before: (input, { agents, call }) => agents.tellOfRuntime(call, input),
  run: (input, { agents, call }) => agents.create(call, input),
})
