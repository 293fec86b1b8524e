import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'clock_reset',
  toolset: 'identity',
  title: 'Set the time back',
  description:
    "Accept the machine's clock although the store has seen a later time. Use it only if that later time was wrong: what had expired by then may become valid again. server_health says when the clock is behind.",
  permission: 'system:update',
  tier: 'operator',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    reason: z.string().min(1).max(1000).describe('Why this is right, for readers of the log.'),
  }),
  output: z.strictObject({ from: fields.time, to: fields.time }),
  run: (input, { clock, call }) => clock.reset(call, input),
})
