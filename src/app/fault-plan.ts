import { AppError } from '../contract/app-error.ts'
import { type FaultPlan, type FaultPoint, faultPoints, installFaultPlan } from '../kernel/fault.ts'

/** Makes the plan in the environment variable CASTELLAN_FAULT the plan of this process. */
export const planFaults = (text: string): void => installFaultPlan(parseFaultPlan(text))

const pattern = /^([a-z.]+):(kill|throw):([1-9]\d{0,8})$/

/**
 * Reads `POINT:kill:N` or `POINT:throw:N`: at the N-th time that the program comes to the point, the process dies as by
 * `kill -9`, or the step fails. For tests of what a crash leaves behind; a plan that could never come true is refused.
 */
export function parseFaultPlan(text: string): FaultPlan {
  const [, point, action, count] = pattern.exec(text) ?? []
  if (point === undefined || !faultPoints.includes(point as FaultPoint)) {
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `CASTELLAN_FAULT must be POINT:kill:N or POINT:throw:N with one of the points ${faultPoints.join(', ')}.`,
      { field: 'CASTELLAN_FAULT' },
    )
  }
  let left = Number(count)
  return (reached) => {
    if (reached !== point || --left !== 0) return
    if (action === 'kill') process.kill(process.pid, 'SIGKILL')
    throw new Error(`a fault was planned at ${point}`)
  }
}
