import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
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
  audit: 'digest',
  trust: { carries: { as: 'gateway', fields: ['slug'] } },
  needsChange: true,
  input: z.strictObject({
    id: profileParams.idOrName('Id of the gateway, or its name.'),
    description: profileParams.description.optional(),
    icon: profileParams.icon.optional(),
    labels: profileParams.labels.optional().describe('Its labels from now on.'),
    name: profileParams.name.optional().describe('Its new name. Its address stays.'),
    scope: profileParams.scope.optional(),
    toolExposureMode: profileParams.exposure.optional(),
    considerContextUntrusted: profileParams.considerContextUntrusted.optional(),
    teams: profileParams.teams.optional().describe('The teams that have it from now on, for the scope team.'),
    knowledgeBaseIds: profileParams.knowledgeBaseIds.optional().describe('Its knowledge bases from now on.'),
    connectorIds: profileParams.connectorIds.optional().describe('Its knowledge connectors from now on.'),
  }),
  output: gatewayFields.gateway,
  run: (input, { gateways, call }) => gateways.edit(call, input),
})
