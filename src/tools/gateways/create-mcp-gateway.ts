import { z } from 'zod'
import { newProfileParams, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { gatewayFields } from './gateway-fields.ts'

export default defineTool({
  name: 'create_mcp_gateway',
  toolset: 'gateways',
  title: 'Create an MCP gateway',
  description:
    'Make an MCP gateway: one address with a choice of tools, for the people with whom you share it. It begins without tools; assign them with bulk_assign_tools_to_mcp_gateways. Use create_agent for something that acts by itself.',
  permission: 'mcpGateway:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { carries: { as: 'gateway', fields: ['slug'] } },
  input: z.strictObject({
    name: profileParams.name.describe('Name of the gateway, for people.'),
    scope: profileParams.scope.optional().describe('Who may use it. org, unless you name teams.'),
    ...newProfileParams,
    knowledgeBaseIds: profileParams.knowledgeBaseIds.optional(),
    connectorIds: profileParams.connectorIds.optional(),
  }),
  output: gatewayFields.gateway,
  run: (input, { gateways, call }) => gateways.create(call, input),
})
