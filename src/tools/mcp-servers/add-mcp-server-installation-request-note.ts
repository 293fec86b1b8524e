import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { requestId, requestView } from './request-fields.ts'

export default defineTool({
  name: 'add_mcp_server_installation_request_note',
  toolset: 'mcp-servers',
  title: 'Add a note to an installation request',
  description:
    'Add a note to a request for an MCP server, for its author and the administrators to read. To decide it use decide_mcp_server_installation_request.',
  permission: 'mcpServerInstallationRequest:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { carries: { as: 'request', fields: ['id'] } },
  input: z.strictObject({
    id: requestId,
    note: z.string().trim().min(1).max(4_000).describe('The text.'),
  }),
  output: z.strictObject({ request: requestView }),
  run: (input, { mcpServers, call }) => mcpServers.noteRequest(call, input),
})
