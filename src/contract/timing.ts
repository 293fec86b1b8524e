import type { Json } from '../kernel/canonical-json.ts'

type Firing = {
  enabled: boolean
  /** What happens while the last run is not over. */
  overlap: 'skip' | 'queue' | 'allow'
  /** Whether times that came while no server was there are made up for by one run. */
  missed: 'skip' | 'once'
  input: Json
  /** Each time is put off by a part of this, so that many schedules do not fire at one moment. */
  jitterMs: number
}

/** A timing that is in force, for the caller. `next_run_at` is when it fires next, its part of the jitter included. */
export type ScheduleView = Readonly<{ next_run_at: string }> &
  (Readonly<{ type: 'cron'; cron: string; timezone: string }> | Readonly<{ type: 'interval'; seconds: number }>)

/** When an agent or a workflow is started by itself. */
export type Timing =
  | Readonly<{ type: 'cron'; cron: string; timezone: string } & Firing>
  | Readonly<{ type: 'interval'; everyMs: number } & Firing>
