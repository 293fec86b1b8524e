import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'

const input = z.strictObject({
  name: z.string(),
  description: z.string(),
  isRequired: z.boolean(),
  isSecret: z.boolean(),
})

export default defineTool({
  name: 'list_registry_servers',
  toolset: 'mcp-servers',
  trust: { reads: 'unnamed' },
  title: 'List MCP servers in the registry format',
  description:
    'List the MCP servers that you can see in the format of the MCP registry (server.json), for programs that read registries. It is also served at /v0.1/servers. To look for a server yourself use search_private_mcp_registry.',
  permission: 'mcpRegistry:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    name: z.string().min(1).max(300).optional().describe('Only the server of this name.'),
    version: z.string().min(1).max(255).optional().describe('Only of this version, or "latest".'),
    search: z.string().min(1).max(200).optional().describe('Part of the name.'),
    updated_since: z.iso.datetime({ offset: true }).max(64).optional().describe('Only what was changed since then.'),
    cursor: z.string().min(1).max(1_000).optional().describe('Where the page before ended (metadata.nextCursor).'),
    limit: z.int().min(1).max(limits.mcpRegistryPageMax).optional().describe('How many at most; 30 by default.'),
  }),
  output: z.strictObject({
    servers: z.array(
      z.strictObject({
        server: z.strictObject({
          name: z.string(),
          title: z.string(),
          description: z.string(),
          version: z.string(),
          websiteUrl: z.string().optional(),
          repository: z.strictObject({ url: z.string(), source: z.string() }).optional(),
          remotes: z
            .array(
              z.strictObject({
                type: z.enum(['streamable-http']),
                url: z.string(),
                headers: z.array(input).optional(),
              }),
            )
            .optional(),
          packages: z
            .array(
              z.strictObject({
                registryType: z.string(),
                identifier: z.string(),
                version: z.string().optional(),
                transport: z.strictObject({ type: z.enum(['stdio']) }),
                environmentVariables: z.array(input).optional(),
              }),
            )
            .optional(),
        }),
        _meta: z.record(
          z.string(),
          z.strictObject({
            status: z.enum(['active']),
            publishedAt: z.string(),
            updatedAt: z.string(),
            isLatest: z.boolean(),
          }),
        ),
      }),
    ),
    metadata: z.strictObject({ count: z.int(), nextCursor: z.string().optional() }),
  }),
  run: (query, { mcpServers, call }) => mcpServers.readRegistry(call, query),
})
