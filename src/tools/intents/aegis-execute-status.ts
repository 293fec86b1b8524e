import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { intentParams } from './intent-params.ts'

export default defineTool({
  name: 'aegis.execute.status',
  toolset: 'intents',
  trust: { reads: 'run' },
  title: 'Status of an intent',
  description:
    'Whether a pipeline of aegis.execute.intent still runs, its result when it has completed, or why and in which state it failed. Use aegis.execute.wait to wait for the end.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({
    pipeline_execution_id: z.string().min(1).max(64).describe('Id that aegis.execute.intent answered.'),
    tenant_id: intentParams.tenant,
  }),
  output: z.strictObject({
    status: z.enum(['running', 'completed', 'failed', 'cancelled']),
    final_result: z.string().optional(),
    duration_ms: z.int().optional(),
    reused_existing_agent: z.boolean().optional(),
    reason: z.string().optional(),
    failed_at_state: z.string().nullable().optional(),
  }),
  run: (input, { intents, call }) => intents.status(call, input),
})
