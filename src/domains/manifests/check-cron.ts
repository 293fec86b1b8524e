import { createRequire } from 'node:module'

let library: typeof import('croner') | undefined

type CronProblem = Readonly<{ field: 'cron' | 'timezone'; problem: string }>

/** Why a cron expression is invalid or cannot be evaluated in a time zone. The library is imported at its first use. */
export function cronProblem(cron: string, timezone: string): CronProblem | undefined {
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone })
  } catch {
    return { field: 'timezone', problem: 'must be a time zone such as Europe/Rome or UTC' }
  }
  library ??= createRequire(import.meta.url)('croner') as typeof import('croner')
  try {
    const timer = new library.Cron(cron, { paused: true, timezone })
    const next = timer.nextRun(new Date(0))
    timer.stop()
    return next === null ? { field: 'cron', problem: 'must match a time in the future' } : undefined
  } catch {
    return { field: 'cron', problem: 'must be a cron expression such as "0 6 * * 1-5"' }
  }
}
