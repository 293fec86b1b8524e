import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'read_mcp_resource',
  toolset: 'gateways',
  title: 'Read a resource of an MCP server',
  description:
    'Read a resource of one of the MCP servers behind the gateway that you are connected to, by its URI. Clients that know MCP resources list them with resources/list. Use web.fetch for an address of the web.',
  permission: 'mcpGateway:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { source: 'untrusted', sends: true },
  input: z.strictObject({ uri: z.string().min(1).max(4_096).describe('URI of the resource.') }),
  output: z.strictObject({ contents: z.array(fields.anyJson) }),
  run: (input, { mcpContent, call }) => mcpContent.readResource(call, input),
})
