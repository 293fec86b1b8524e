/**
 * Named points at every durable step, where a test can make the program fail or die.
 * In production no plan is installed and `fault` is one comparison.
 */
export const faultPoints = [
  /** A commit begins. */
  'store.begin',
  /** Before a statement of a transaction that answers rows; a few of those also change some. */
  'store.query',
  /** Before a statement of a transaction that changes rows. */
  'store.write',
  /** Everything is written, nothing is committed. */
  'store.commit.before',
  /** Everything is on disk, and nobody has been answered. */
  'store.commit.after',
  /** Before a migration is committed. */
  'store.migrate',
  /** Before the content of a file beside the store is written. */
  'file.write',
  /** The new content is complete, the old one still in place. */
  'file.replace',
  /** A step of a run is about to be done. */
  'run.step.before',
  /** It is done, and not recorded yet. */
  'run.step.after',
  /** A schedule is due, and nothing was started yet. */
  'schedule.due',
] as const
export type FaultPoint = (typeof faultPoints)[number]

/** May throw, which simulates a failure of the store or the disk, or end the process. */
export type FaultPlan = (point: FaultPoint) => void

let plan: FaultPlan | undefined

export function installFaultPlan(next: FaultPlan | undefined): void {
  plan = next
}

export function fault(point: FaultPoint): void {
  if (plan !== undefined) plan(point)
}
