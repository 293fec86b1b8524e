import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'search_private_mcp_registry',
  toolset: 'mcp-servers',
  title: 'Search the private MCP registry',
  description:
    'Search the private MCP registry for available MCP servers, by words of their names, descriptions and labels. Use it to find a server to deploy; get_mcp_servers lists all of them with their deployments, and search_tools finds tools of servers that are deployed.',
  permission: 'mcpRegistry:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'server', fields: ['id', 'catalogId'] } },
  input: z.strictObject({
    query: z
      .string()
      .max(500)
      .optional()
      .describe('Optional search query to filter MCP servers by name or description.'),
  }),
  output: z.strictObject({
    items: z.array(
      z.strictObject({
        id: z.string().describe('The catalog item ID.'),
        name: z.string(),
        version: z.string().nullable(),
        description: z.string().nullable(),
        serverType: z.enum(['local', 'remote', 'builtin']),
        serverUrl: z.string().nullable().describe('The remote server URL, if applicable.'),
        repository: z.string().nullable(),
      }),
    ),
  }),
  run: (input, { mcpServers, call }) => mcpServers.search(call, input),
})
