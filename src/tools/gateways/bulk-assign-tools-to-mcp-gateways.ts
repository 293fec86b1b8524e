import { z } from 'zod'
import { bulkFailure, bulkOutput, bulkParams, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'bulk_assign_tools_to_mcp_gateways',
  toolset: 'gateways',
  title: 'Assign tools to MCP gateways',
  description:
    'Give several tools to several MCP gateways at once, or change the credentials that their tools are called with. Each assignment stands for itself: the answer says which succeeded, which failed and why, and which were there already. Use unassign_tools_from_mcp_gateway to take tools away.',
  permission: 'mcpGateway:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  fails: bulkFailure,
  trust: { governs: true },
  input: z.strictObject({
    assignments: bulkParams({ mcpGatewayId: profileParams.idOrName('Id or name of the gateway.') }).describe(
      'Tools, each with its gateway.',
    ),
  }),
  output: bulkOutput({ mcpGatewayId: z.string() }),
  run: (input, { gateways, call }) => gateways.assignTools(call, input),
})
