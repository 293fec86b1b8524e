import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { serverId } from './server-fields.ts'

export default defineTool({
  name: 'get_mcp_server_tools',
  toolset: 'mcp-servers',
  title: 'List the tools of an MCP server',
  description:
    'Get all tools available for a specific MCP server by its catalog ID (from get_mcp_servers). They are those that the server listed when it was last connected; a server that cannot be reached is in the answer as a problem.',
  permission: 'mcpRegistry:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ mcpServerId: serverId }),
  output: z.strictObject({
    tools: z.array(
      z.strictObject({
        id: z.string().describe('The tool ID.'),
        name: z.string().describe('What it is called by.'),
        description: z.string().nullable(),
        catalogId: z.string().nullable(),
      }),
    ),
    problems: z
      .array(z.strictObject({ deploymentId: z.string(), error: z.string() }))
      .describe('Deployments that cannot be used, and why.'),
    isDeployed: z.boolean().describe('A server that is deployed nowhere has listed no tools yet.'),
  }),
  run: (input, { mcpServers, call }) => mcpServers.tools(call, input),
})
