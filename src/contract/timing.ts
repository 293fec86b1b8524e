import type { Json } from '../kernel/canonical-json.ts'

type Firing = {
  enabled: boolean
  /** What happens while the last run is still going. */
  overlap: 'skip' | 'queue' | 'allow'
  /** Whether one run makes up for the times that were missed while no server ran. */
  missed: 'skip' | 'once'
  input: Json
  /** Each time is delayed by a part of this, so that many schedules do not fire at once. */
  jitterMs: number
}

/** A timing in force, for the caller. `next_run_at` is the next time, its jitter included. */
export type ScheduleView = Readonly<{ next_run_at: string }> &
  (Readonly<{ type: 'cron'; cron: string; timezone: string }> | Readonly<{ type: 'interval'; seconds: number }>)

/** When an agent or a workflow is started automatically. */
export type Timing =
  | Readonly<{ type: 'cron'; cron: string; timezone: string } & Firing>
  | Readonly<{ type: 'interval'; everyMs: number } & Firing>
