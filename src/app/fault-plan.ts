import { AppError } from '../contract/app-error.ts'
import { type FaultPlan, type FaultPoint, faultPoints, installFaultPlan } from '../kernel/fault.ts'

/** Installs the fault plan of the environment variable CASTELLAN_FAULT. */
export const planFaults = (text: string): void => installFaultPlan(parseFaultPlan(text))

const pattern = /^([a-z.]+):(kill|throw):([1-9]\d{0,8})$/

/**
 * Parses `POINT:kill:N` or `POINT:throw:N`: when the program reaches the point for the N-th time, the process dies as by `kill
 * -9`, or the step fails. For crash tests; an impossible plan is refused.
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
