import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'server_ping',
  toolset: 'server',
  title: 'Ping',
  description: 'Check that the server answers. Use server_health for its health.',
  permission: 'server:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  minimal: true,
  input: z.strictObject({}),
  output: z.strictObject({ ok: z.literal(true), timestamp: fields.time }),
  run: (_input, { server, call }) => server.ping(call),
})
