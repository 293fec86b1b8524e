import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { serverId } from './server-fields.ts'

export default defineTool({
  name: 'delete_mcp_server',
  toolset: 'mcp-servers',
  title: 'Delete an MCP server',
  description:
    'Remove an MCP server from the private registry with all its deployments, their workspaces, logs and secrets. To end one deployment alone use delete_mcp_server_deployment.',
  permission: 'mcpRegistry:delete',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  whenDiskFull: true,
  input: z.strictObject({ id: serverId }),
  output: z.strictObject({ id: z.string(), name: z.string(), deleted: z.boolean(), deployments: z.int() }),
  run: (input, { mcpServers, call }) => mcpServers.remove(call, input),
})
