import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'finish_mcp_authorization',
  toolset: 'mcp-servers',
  title: 'Finish an authorization',
  description:
    'Redeem what an authorization server answered for a link of authorize_mcp_server. The page to which the person returns does this; call it yourself only in a program that has no browser. A state works once.',
  permission: null,
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    state: z.string().min(20).max(100).describe('The state of the answer.'),
    code: z.string().min(1).max(8_192).optional().describe('The authorization code, if it was allowed.'),
    error: z.string().min(1).max(200).optional().describe('The error code, if it was not.'),
    iss: z.string().min(1).max(2_000).optional().describe('The issuer, if the answer names it.'),
  }),
  output: z.strictObject({ serverId: z.string(), message: z.string() }),
  run: (input, { mcpServers, call }) => mcpServers.finishAuthorization(call, input),
})
