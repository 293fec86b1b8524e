import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { limitFields, limitParams } from './limit-fields.ts'

export default defineTool({
  name: 'create_limit',
  toolset: 'limits',
  title: 'Create a limit',
  description:
    'Bound what an organisation, a team, a user, an agent, gateway or proxy, or a virtual key may use in each period: dollars spent on models (token_cost), calls of an MCP server (mcp_server_calls), or calls of one tool (tool_calls). A use beyond it is refused with ERR_LIMIT_EXCEEDED until the next period. Use update_limit to raise or lower it, get_limits to see what is left.',
  permission: 'llmLimit:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    entity_type: limitParams.entityType.describe('What the limit binds. agent is also for gateways and proxies.'),
    entity_id: limitParams.entityId.describe(
      'Id or name of the entity. For organization, the id of your own organisation.',
    ),
    limit_type: limitParams.limitType.describe('What is counted.'),
    limit_value: limitParams.limitValue.describe('US dollars for token_cost, calls for the other types.'),
    model: z
      .array(z.string().min(1).max(256))
      .max(limits.usageLimitModelsMax)
      .nullable()
      .optional()
      .describe(
        'For token_cost: the models that count, with their dated versions; "*" at the end stands for any rest. Leave it out for all.',
      ),
    cleanup_interval: limitParams.interval
      .optional()
      .describe(
        'How long a period is: calendar_* begin at midnight in the configured time zone, the others count from now. Default: calendar_month.',
      ),
    mcp_server_name: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe("For mcp_server_calls and tool_calls: the MCP server; 'castellan' is this server itself."),
    tool_name: z.string().min(1).max(256).optional().describe('For tool_calls: the tool of that server.'),
  }),
  output: z.strictObject({ limit: limitFields.limit }),
  run: (input, { limits: service, call }) => service.create(call, input),
})
