import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { aboutFields, changedServer, serverId } from './server-fields.ts'

export default defineTool({
  name: 'edit_mcp_description',
  toolset: 'mcp-servers',
  title: 'Edit the description of an MCP server',
  description:
    "Edit an MCP server's display information and metadata: name, texts, labels, and who sees it. What is left out stays. After a new name its tools have new names and still answer to the old ones. For how it is run or reached use edit_mcp_config.",
  permission: 'mcpRegistry:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { carries: { as: 'server', fields: ['id', 'catalogId'] } },
  input: z.strictObject({
    id: serverId,
    name: z.string().trim().min(1).max(200).optional().describe('Display name for the MCP server.'),
    ...aboutFields,
  }),
  output: changedServer,
  run: (input, { mcpServers, call }) => mcpServers.editDescription(call, input),
})
