import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'delete_mcp_server_deployment',
  toolset: 'mcp-servers',
  title: 'Remove a deployed MCP server',
  description:
    'End a deployment of an MCP server and remove its workspace, its log and the values that were entered for it. The server stays in the registry; delete_mcp_server removes that too.',
  permission: 'mcpServerInstallation:delete',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  whenDiskFull: true,
  input: z.strictObject({
    serverId: z
      .string()
      .min(1)
      .max(200)
      .describe('The deployment ID of the MCP server, or the name of a server with one deployment.'),
  }),
  output: z.strictObject({ id: z.string(), deleted: z.boolean() }),
  run: (input, { mcpServers, call }) => mcpServers.removeDeployment(call, input),
})
