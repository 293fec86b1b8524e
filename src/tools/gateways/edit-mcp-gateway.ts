import { z } from 'zod'
import { changedProfileParams, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { gatewayFields } from './gateway-fields.ts'

export default defineTool({
  name: 'edit_mcp_gateway',
  toolset: 'gateways',
  title: 'Edit an MCP gateway',
  description:
    'Change an MCP gateway: its name, who may use it, or how its tools are listed. What you leave out stays, and so does its address. Clients that are connected notice at their next request. Use bulk_assign_tools_to_mcp_gateways for its tools.',
  permission: 'mcpGateway:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { carries: { as: 'gateway', fields: ['slug'] } },
  needsChange: true,
  input: z.strictObject({
    id: profileParams.idOrName('Id of the gateway, or its name.'),
    ...changedProfileParams,
    knowledgeBaseIds: profileParams.knowledgeBaseIds.optional().describe('Its knowledge bases from now on.'),
    connectorIds: profileParams.connectorIds.optional().describe('Its knowledge connectors from now on.'),
  }),
  output: gatewayFields.gateway,
  run: (input, { gateways, call }) => gateways.edit(call, input),
})
