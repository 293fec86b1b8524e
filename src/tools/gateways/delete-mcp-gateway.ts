import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'delete_mcp_gateway',
  toolset: 'gateways',
  title: 'Delete an MCP gateway',
  description:
    'Remove an MCP gateway and the assignments of its tools. Its address stops working at once, also for connected clients. The MCP servers behind it stay; remove those with delete_mcp_server.',
  permission: 'mcpGateway:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ id: profileParams.idOrName('Id of the gateway, or its name.') }),
  output: z.strictObject({ id: z.string(), deleted: z.boolean() }),
  run: (input, { gateways, call }) => gateways.remove(call, input),
})
