import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { deploymentFields } from './server-fields.ts'

export default defineTool({
  name: 'list_mcp_server_deployments',
  toolset: 'mcp-servers',
  title: 'List deployed MCP servers',
  description:
    'List all deployed (installed) MCP server instances accessible to the current user: whose each is, whether it can be used, and whether it runs. Use get_mcp_server_logs with the id of one to see why it fails.',
  permission: 'mcpRegistry:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({ deployments: z.array(z.strictObject(deploymentFields)) }),
  run: (_input, { mcpServers, call }) => mcpServers.listDeployments(call),
})
