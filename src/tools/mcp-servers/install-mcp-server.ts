import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { deployOutput, deployValues, serverId } from './server-fields.ts'

export default defineTool({
  name: 'install_mcp_server',
  toolset: 'mcp-servers',
  title: 'Install an MCP server for yourself',
  description:
    'Install an MCP server of the registry for yourself alone, with your own credentials, and list its tools. If it needs secrets, the answer has a link: give it to a person, who enters them there. Members may use it. To install a server for a team or for everybody use deploy_mcp_server; delete_mcp_server_deployment removes it.',
  permission: 'mcpServerInstallation:create',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'create',
  skipJudge: false,
  fails: { kind: 'unavailable', field: 'status', is: 'error' },
  trust: { sends: true, carries: { as: 'server', fields: ['id', 'catalogId'] } },
  long: true,
  input: z.strictObject({ catalogId: serverId, values: deployValues }),
  output: deployOutput,
  run: (input, { mcpServers, call }) => mcpServers.install(call, input),
})
