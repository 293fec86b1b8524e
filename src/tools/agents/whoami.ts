import { z } from 'zod'
import { tiers } from '../../contract/principal.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'whoami',
  toolset: 'agents',
  title: 'Who am I',
  description:
    'Return the id and the name of the current agent: the caller, or the agent or gateway at whose address it called. Any other caller gets its own identity and name instead; kind says which.',
  permission: null,
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({
    agentId: z.string().describe('Id of the current agent or gateway; else the identity of the caller.'),
    agentName: z.string().describe('Display name of the current agent or gateway; else the name of the caller.'),
    kind: z.enum(['owner', 'key', 'user', 'agent', 'gateway']),
    identity: z.string().describe('Whose things the caller acts on, such as owner, key:ID or user:ID.'),
    actor: z.string().describe('Name of the caller, such as an e-mail address or the name of a key.'),
    organization: z.string(),
    role: z.string().describe('admin, editor, member, or a role of the tenant.'),
    tier: z.enum(tiers),
    teams: z.array(z.string()).describe('Ids of the teams of people to which the caller belongs.'),
  }),
  run: (_input, { agents, call }) => agents.whoami(call),
})
