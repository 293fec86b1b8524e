/**
 * Named points at every durable step, where a test can make the program fail or die.
 * In production no plan is installed and `fault` is one comparison.
 */
export type FaultPlan = (point: string) => void

let plan: FaultPlan | undefined

export function installFaultPlan(next: FaultPlan | undefined): void {
  plan = next
}

export function fault(point: string): void {
  if (plan !== undefined) plan(point)
}
