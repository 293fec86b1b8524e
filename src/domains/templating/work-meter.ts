import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'

/**
 * Counts the work of untrusted templates over untrusted values, and stops it at a bound. It counts what is read and
 * never the time, so that a replay refuses what the first run refused. One unit is about one character.
 */
export type Meter = Readonly<{
  charge(units: number): void
  /** One iteration of a loop, one name lookup, one call. */
  step(): void
}>

const STEP_UNITS = 200
/** Reading the name of one member of an object, and examining one value. */
const NAME_UNITS = 64
const VALUE_UNITS = 16

/**
 * The work exceeds its budget. This is not an error of one comparison, so code that absorbs those must not absorb it.
 */
export class TooMuchWork extends Error {}

export function createMeter(unitsMax: number = limits.textWorkUnitsMax): Meter {
  let left = unitsMax
  const charge = (units: number): void => {
    left -= units
    if (left < 0) throw new TooMuchWork('too much work')
  }
  return { charge, step: () => charge(STEP_UNITS) }
}

/** `field` names the text that did the work. */
export function refuseWork(field: string): AppError {
  return new AppError(
    'ERR_TOO_LARGE',
    `${field}: the template needs more than ${limits.textWorkUnitsMax} units of work (each character or member that it reads counts as one, each loop iteration as ${STEP_UNITS}). Use smaller values, fewer loops inside loops, or leave the work to a command or an agent.`,
    { field, work_units_max: limits.textWorkUnitsMax },
  )
}

/** The work of comparing or serialising a value, with everything in it. */
export function chargeValue(meter: Meter, value: unknown): void {
  const open: unknown[] = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (isPlain(next)) {
      const names = Object.keys(next)
      meter.charge(VALUE_UNITS + NAME_UNITS * names.length)
      for (const name of names) {
        meter.charge(name.length)
        open.push(next[name])
      }
    } else {
      meter.charge(VALUE_UNITS + shallowUnits(next))
      if (Array.isArray(next)) for (const member of next) open.push(member)
    }
  }
}

/** The work of examining a value itself, without the content of its members. */
export function shallowUnits(value: unknown): number {
  if (typeof value === 'string' || Array.isArray(value) || value instanceof Uint8Array) return value.length
  return isPlain(value) ? NAME_UNITS * Object.keys(value).length : 0
}

const isPlain = (value: unknown): value is Record<string, unknown> => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
