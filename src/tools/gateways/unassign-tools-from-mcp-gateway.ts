import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'unassign_tools_from_mcp_gateway',
  toolset: 'gateways',
  title: 'Take tools away from an MCP gateway',
  description:
    'Take tools away from an MCP gateway. Its clients can no longer find or call them. Use bulk_assign_tools_to_mcp_gateways to assign tools.',
  permission: 'mcpGateway:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  fails: { kind: 'not-found', field: 'removed', is: { empty: true } },
  input: z.strictObject({
    mcpGatewayId: profileParams.idOrName('Id of the gateway, or its name.'),
    toolIds: z
      .array(profileParams.idOrName('Id or name of a tool.'))
      .min(1)
      .max(limits.toolAssignmentsPerCallMax)
      .describe('Tools to take away.'),
  }),
  output: z.strictObject({
    mcpGatewayId: z.string(),
    removed: z.array(z.string()).describe('Ids of those that were assigned before.'),
    notAssigned: z.array(z.string()).describe('Those of toolIds that were not, as you gave them.'),
  }),
  run: (input, { gateways, call }) => gateways.unassignTools(call, input),
})
