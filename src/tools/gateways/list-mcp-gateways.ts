import { z } from 'zod'
import { fields } from '../params.ts'
import { profileFields, profileListParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { gatewayFields } from './gateway-fields.ts'

const { id, name, slug, path, description, scope, toolExposureMode } = gatewayFields.gateway.shape

export default defineTool({
  name: 'list_mcp_gateways',
  toolset: 'gateways',
  title: 'List MCP gateways',
  description:
    'List the MCP gateways that you may use, by name, with their addresses. Use get_mcp_gateway for the tools of one.',
  permission: 'mcpGateway:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'gateway', fields: ['slug'] } },
  input: profileListParams,
  output: z.strictObject({
    total: fields.total,
    gateways: z.array(
      z.strictObject({
        ...{ id, name, slug, path, description, scope, toolExposureMode },
        teams: z.array(profileFields.team),
        labels: z.array(profileFields.label),
        toolCount: z.int(),
      }),
    ),
  }),
  run: (input, { gateways, call }) => gateways.list(call, input),
})
