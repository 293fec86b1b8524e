import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { configFields } from './config-fields.ts'
import { aboutFields, changedServer } from './server-fields.ts'

export default defineTool({
  name: 'create_mcp_server',
  toolset: 'mcp-servers',
  title: 'Create an MCP server',
  description:
    'Create a new MCP server in the private registry: a remote one by its serverUrl, or a local one by the command that runs it in a workspace. Nothing is started: use deploy_mcp_server next. Give secrets as references from secret_link_create, or let deployments ask for them (promptOnInstallation).',
  permission: 'mcpRegistry:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { carries: { as: 'server', fields: ['id', 'catalogId'] } },
  input: z.strictObject({
    name: z.string().trim().min(1).max(200).describe('Display name for the MCP server.'),
    ...aboutFields,
    environmentId: z
      .string()
      .max(128)
      .nullable()
      .optional()
      .describe('ID of the environment this server belongs to. Omit (or pass null) to leave it in the default one.'),
    ...configFields,
  }),
  output: changedServer,
  before: (input, { mcpServers }) => mcpServers.checkNew(input),
  run: (input, { mcpServers, call }) => mcpServers.create(call, input),
})
