import { z } from 'zod'
import { sharingScopes } from '../../contract/sharing.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { deployOutput, deployValues, serverId } from './server-fields.ts'

export default defineTool({
  name: 'deploy_mcp_server',
  toolset: 'mcp-servers',
  title: 'Deploy an MCP server',
  description:
    'Deploy (install) an MCP server from the catalog and list its tools. If it needs secrets, the answer has a link: give it to a person, who enters them there. Calling it again gives a new link, or connects again. A local server runs in a workspace, starts on first use and stops when idle. Without the permission to deploy, use install_mcp_server for yourself.',
  permission: 'mcpRegistry:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'create',
  skipJudge: false,
  fails: { kind: 'unavailable', field: 'status', is: 'error' },
  trust: { sends: true, carries: { as: 'server', fields: ['id', 'catalogId'] } },
  long: true,
  input: z.strictObject({
    catalogId: serverId,
    scope: z
      .enum(sharingScopes)
      .optional()
      .describe(
        "Visibility scope for the deployment: 'personal' (default), 'team' (requires teamId), or 'org' (admins only, visible to all org members).",
      ),
    teamId: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe("Optional team ID for a team-scoped deployment (required when scope='team')."),
    agentIds: z
      .array(z.string().min(1).max(200))
      .max(100)
      .optional()
      .describe("Optional agent IDs to assign the server's tools to after deployment."),
    values: deployValues,
  }),
  output: deployOutput,
  run: (input, { mcpServers, call }) => mcpServers.deploy(call, input),
})
