import { z } from 'zod'
import { fields } from './params.ts'

/** When an agent or a workflow starts automatically. */
const schedule = z.strictObject({
  type: z.enum(['cron', 'interval']),
  cron: z.string().optional(),
  timezone: z.string().optional(),
  seconds: z.number().optional().describe('Of an interval: from one start to the next.'),
  next_run_at: fields.time,
})

const suggestion = z.strictObject({ cron: z.string(), timezone: z.string(), jitter_seconds: z.int() })

export const scheduleFields = {
  suggested: suggestion
    .nullable()
    .optional()
    .describe('The default_schedule of the manifest while it starts nothing; with enabled: true it is in force.'),
  ofDeployed: schedule
    .optional()
    .describe('When it runs by itself from now on, and next; left out when it does not, as with enabled: false.'),
  displayed: schedule
    .nullable()
    .describe('When the latest version runs by itself, and next; null when it does not, as with enabled: false.'),
} as const
