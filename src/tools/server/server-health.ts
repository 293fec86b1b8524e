import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'server_health',
  toolset: 'server',
  title: 'Health',
  description: 'Health of the server: its mode, store, pipeline, tools, and any problems.',
  permission: 'server:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  minimal: true,
  onHaltedLog: 'answer',
  input: z.strictObject({}),
  output: z.strictObject({
    status: z.enum(['ok', 'degraded']),
    mode: z.enum(['FULL', 'READONLY', 'TEST', 'MINIMAL']),
    uptime_ms: z.int(),
    db: z.strictObject({ open: z.boolean(), user_version: z.int(), path: z.string() }),
    middleware: z.strictObject({ stages: z.array(z.string()) }),
    governance: z
      .enum(['permissive', 'restrictive'])
      .describe('What tools without a policy may do in a context that has read untrusted data.'),
    tools: z.strictObject({ registered: z.int() }),
    version: z.string(),
    timestamp: fields.time,
    owner_pid: z.int().describe('The process that owns the state.'),
    process: z.strictObject({ pid: z.int(), rss_bytes: z.int(), heap_used_bytes: z.int() }),
    problems: z.array(z.string()).describe('What is wrong, in words; empty when nothing is.'),
  }),
  run: (_input, { server, call }) => server.health(call),
})
