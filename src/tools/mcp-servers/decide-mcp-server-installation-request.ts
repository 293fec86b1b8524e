import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { requestId, requestView } from './request-fields.ts'

export default defineTool({
  name: 'decide_mcp_server_installation_request',
  toolset: 'mcp-servers',
  title: 'Decide an installation request',
  description:
    'Approve or decline a request for an MCP server, with a note for its author. Approving adds nothing by itself: use create_mcp_server next. A decision can be changed.',
  permission: 'mcpServerInstallationRequest:admin',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    id: requestId,
    decision: z.enum(['approved', 'declined']).describe('The decision.'),
    note: z.string().trim().min(1).max(4_000).optional().describe('Why.'),
  }),
  output: z.strictObject({ request: requestView }),
  run: (input, { mcpServers, call }) => mcpServers.decideRequest(call, input),
})
