import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'get_mcp_prompt',
  toolset: 'gateways',
  title: 'Get a prompt of an MCP server',
  description:
    'Get a prompt of one of the MCP servers behind the gateway that you are connected to, filled with arguments. Names begin with the name of the server and two underscores. Clients that know MCP prompts list them with prompts/list. Use get_agent for the prompt of an agent.',
  permission: 'mcpGateway:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { source: 'untrusted', sends: true },
  input: z.strictObject({
    name: z.string().min(1).max(256).describe('Name of the prompt, such as server__prompt.'),
    arguments: z
      .record(z.string().max(256), z.string().max(65_536))
      .optional()
      .describe('Values for what the prompt asks for.'),
  }),
  output: z.strictObject({ description: z.string().optional(), messages: z.array(fields.anyJson) }),
  run: (input, { mcpContent, call }) => mcpContent.getPrompt(call, input),
})
