import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { requestView } from './request-fields.ts'

export default defineTool({
  name: 'create_mcp_server_installation_request',
  toolset: 'mcp-servers',
  title: 'Ask for an MCP server',
  description:
    'Ask an administrator to add an MCP server to the private registry. Without any field the answer has a link to a page where a person describes what they need. Check with search_private_mcp_registry first whether it already exists.',
  permission: 'mcpServerInstallationRequest:create',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { carries: { as: 'request', fields: ['id'] } },
  harmless: true,
  input: z.strictObject({
    name: z
      .string()
      .trim()
      .min(1)
      .max(200)
      .optional()
      .describe('What the server is called. Needed unless catalogId is given.'),
    reason: z.string().max(4_000).optional().describe('What it is needed for.'),
    serverUrl: z.string().max(2_000).optional().describe('Its address, if it is a remote server.'),
    repository: z.string().max(2_000).optional().describe('Where its source is.'),
    catalogId: z
      .string()
      .max(200)
      .optional()
      .describe('Id or name of a server of the registry that should be deployed.'),
  }),
  output: z.strictObject({
    request: requestView.nullable().describe('Null until the person has filled in the page.'),
    link: z.strictObject({ url: z.string(), expires_at: fields.time }).optional(),
    message: z.string(),
  }),
  run: (input, { mcpServers, call }) => mcpServers.request(call, input),
})
