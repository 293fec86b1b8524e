import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { gatewayFields } from './gateway-fields.ts'

export default defineTool({
  name: 'get_mcp_gateway',
  toolset: 'gateways',
  title: 'Get an MCP gateway',
  description:
    'Show one MCP gateway by id or name: its address, who may use it, and its tools. Of several with one name it is yours, then that of a team, then that of the organisation. Use list_mcp_gateways to find one.',
  permission: 'mcpGateway:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'gateway', fields: ['slug'] } },
  input: z.strictObject({
    id: profileParams.idOrName('Id of the gateway.').optional(),
    name: profileParams.idOrName('Exact name of the gateway, if you do not have the id.').optional(),
  }),
  output: gatewayFields.gateway,
  run: (input, { gateways, call }) => gateways.get(call, input),
})
