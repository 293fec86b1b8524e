import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'authorize_mcp_server',
  toolset: 'mcp-servers',
  title: 'Authorize a deployed MCP server',
  description:
    'Get a link where a person authorizes a deployed remote MCP server by OAuth: for the first time, or again after the authorization has ended. Give the link to the person; it works once. Use deploy_mcp_server if the server is not deployed yet, or takes a token or a password instead.',
  permission: 'mcpServerInstallation:create',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { sends: true },
  input: z.strictObject({
    serverId: z
      .string()
      .min(1)
      .max(200)
      .describe('The deployment ID of the MCP server, or the name of a server with one deployment.'),
  }),
  output: z.strictObject({
    serverId: z.string(),
    authorizationServer: z.string().describe('Where the person signs in.'),
    link: z.strictObject({ url: z.string(), expires_at: fields.time }).describe('What the person opens.'),
  }),
  run: (input, { mcpServers, call }) => mcpServers.authorize(call, input),
})
