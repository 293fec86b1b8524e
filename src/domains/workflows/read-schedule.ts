import type { Timing } from '../../contract/timing.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { cronProblem } from '../agents/check-cron.ts'
import { withDefaults } from '../agents/schema-defaults.ts'
import { violationsOf } from './json-schema.ts'
import type { JsonObject } from './manifest-types.ts'
import type { Fields } from './read-fields.ts'

const overlaps = ['skip', 'queue', 'allow'] as const
const misses = ['skip', 'once'] as const

/** What a scheduled run is asked: a text is its intent, as when somebody runs the workflow by hand. */
export function scheduledRequest(input: Json): Readonly<{ intent: string | null; input: JsonObject }> {
  if (typeof input === 'string') return { intent: input, input: {} }
  return { intent: null, input: typeof input === 'object' && input !== null ? (input as JsonObject) : {} }
}

/** `spec.default_schedule`: a suggestion, unless it says `enabled: true`. Then one whose runs could never start is refused. */
export function readSchedule(spec: Fields, inputSchema: JsonObject | null): Timing | null {
  const schedule = spec.map('default_schedule', {
    known: ['cron', 'timezone', 'jitter_seconds', 'enabled', 'overlap', 'missed', 'input'],
  })
  const cron = schedule?.text('cron', { required: true, max: 256 })
  if (schedule === undefined || cron === undefined) return null
  const timezone = schedule.text('timezone', { max: 64 }) ?? 'UTC'
  const wrong = cronProblem(cron, timezone)
  if (wrong !== undefined) schedule.error(wrong.field, wrong.problem)
  const input = readInput(schedule)
  const enabled = schedule.flag('enabled') ?? false
  if (schedule.raw('enabled') === undefined) {
    schedule.warn(
      'enabled',
      'is absent, so this is a suggestion and starts nothing; write enabled: true to have it run',
    )
  }
  const [violation] =
    !enabled || inputSchema === null
      ? []
      : violationsOf(inputSchema, withDefaults(inputSchema, scheduledRequest(input).input) as Json)
  if (violation !== undefined) {
    schedule.error('input', `does not conform to metadata.input_schema: ${violation}; give it, or write enabled: false`)
  }
  return {
    type: 'cron',
    cron,
    timezone,
    enabled,
    overlap: schedule.choice('overlap', overlaps) ?? 'skip',
    missed: schedule.choice('missed', misses) ?? 'once',
    input,
    jitterMs: (schedule.number('jitter_seconds', { integer: true, min: 0, max: 86_400 }) ?? 0) * 1_000,
  }
}

function readInput(schedule: Fields): Json {
  const input = schedule.raw('input')
  if (input === undefined || typeof input === 'string') return input ?? null
  return (schedule.json('input') ?? null) as Json
}
