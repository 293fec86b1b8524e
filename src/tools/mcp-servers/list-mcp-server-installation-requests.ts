import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { requestStatus, requestView } from './request-fields.ts'

export default defineTool({
  name: 'list_mcp_server_installation_requests',
  toolset: 'mcp-servers',
  title: 'List installation requests',
  description:
    'List requests for MCP servers, newest first: your own, and for administrators those of everybody. Use decide_mcp_server_installation_request to approve or decline one.',
  permission: 'mcpServerInstallationRequest:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'request', fields: ['id'] } },
  input: z.strictObject({ status: requestStatus.optional().describe('Only those that are so now.'), ...params.page }),
  output: z.strictObject({ requests: z.array(requestView), ...fields.listed }),
  run: (input, { mcpServers, call }) => mcpServers.listRequests(call, input),
})
