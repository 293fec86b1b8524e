import { z } from 'zod'
import { sharingScopes } from '../../contract/sharing.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { deploymentFields } from './server-fields.ts'

const { id, scope, status, error, needsAuthorization, authorizeUrl, state } = deploymentFields

export default defineTool({
  name: 'get_mcp_servers',
  toolset: 'mcp-servers',
  title: 'List MCP servers',
  description:
    'List all MCP servers from the catalog that you can see, with their deployments and what is wrong with those. Use search_private_mcp_registry to look for one, get_mcp_server_tools for the tools of one.',
  permission: 'mcpRegistry:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'server', fields: ['id', 'catalogId'] } },
  input: z.strictObject({}),
  output: z.strictObject({
    items: z.array(
      z.strictObject({
        id: z.string().describe('The catalog item ID.'),
        name: z.string(),
        icon: z.string().nullable(),
        description: z.string().nullable(),
        scope: z.enum(sharingScopes),
        teams: z.array(z.strictObject({ id: z.string(), name: z.string() })),
        serverType: z.enum(['local', 'remote', 'builtin']),
        deployments: z.array(z.strictObject({ id, scope, status, error, needsAuthorization, authorizeUrl, state })),
      }),
    ),
  }),
  run: (_input, { mcpServers, call }) => mcpServers.list(call),
})
