import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { configFields } from './config-fields.ts'
import { changedServer, serverId } from './server-fields.ts'

export default defineTool({
  name: 'edit_mcp_config',
  toolset: 'mcp-servers',
  title: 'Edit the configuration of an MCP server',
  description:
    "Edit an MCP server's technical configuration: how it is run or reached. What is left out stays. Its deployments are stopped, and start with the new configuration on their next use. For name, texts and visibility use edit_mcp_description.",
  permission: 'mcpRegistry:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { sends: true, carries: { as: 'server', fields: ['id', 'catalogId'] } },
  input: z.strictObject({ id: serverId, ...configFields }),
  output: changedServer,
  run: (input, { mcpServers, call }) => mcpServers.editConfig(call, input),
})
