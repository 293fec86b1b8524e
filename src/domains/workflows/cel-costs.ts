import { compilePattern } from '../manifests/json-schema.ts'
import { chargeValue, type Meter, shallowUnits } from '../templating/work-meter.ts'

/** The cost of one CEL operator, charged before it is evaluated. */
export function chargeOperator(meter: Meter, operator: string, left: unknown, right: unknown): void {
  if (operator === 'in') chargeMembership(meter, left, right)
  else if (isObject(left) && isObject(right)) {
    chargeValue(meter, left)
    chargeValue(meter, right)
  } else if (operator === '+') meter.charge(shallowUnits(left) + shallowUnits(right))
  else if (typeof left === 'string' && typeof right === 'string') meter.charge(Math.min(left.length, right.length))
}

/** Each comparison reads the members of both sides, so those of the left side count once for each item. */
function chargeMembership(meter: Meter, left: unknown, right: unknown): void {
  chargeValue(meter, right)
  const items = Array.isArray(right) ? right.length : 1
  if (!isObject(left)) return
  for (let index = 0; index < items; index++) chargeValue(meter, left)
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

/** A search can take time proportional to the product of both lengths. */
const searches = new Set(['contains', 'indexOf', 'lastIndexOf', 'split'])
/** Functions of dates and time zones: expensive, but never applied to long texts. */
const dates = /^(?:timestamp|duration|get[A-Z][A-Za-z]+)$/
const DATE_CHARS_MAX = 128
const DATE_UNITS = 20_000

/** The cost of one CEL function, charged before it is called. `values` begin with the receiver, if there is one. */
export function chargeCall(meter: Meter, name: string, values: readonly unknown[]): void {
  const [first, second] = values
  for (const value of values) meter.charge(shallowUnits(value))
  if (searches.has(name) && typeof first === 'string' && typeof second === 'string') {
    meter.charge(Math.ceil((first.length * second.length) / 16))
    if (name === 'split') meter.charge(4 * first.length)
  }
  // `size` counts code points, which takes more than reading a string's length.
  if (name === 'size' && typeof first === 'string') meter.charge(4 * first.length)
  if (name === 'join' && Array.isArray(first)) {
    const separator = typeof second === 'string' ? second.length : 0
    for (const item of first) meter.charge(shallowUnits(item) + separator)
  }
  if (dates.test(name)) {
    meter.charge(DATE_UNITS)
    if (values.some((value) => typeof value === 'string' && value.length > DATE_CHARS_MAX)) {
      throw new Error(`${name}: the string may have at most ${DATE_CHARS_MAX} characters`)
    }
  }
}

export type Patterns = Readonly<{ matches(text: unknown, pattern: unknown): boolean }>

const PATTERN_UNITS = 20_000
const REPETITION_UNITS = 500_000

/** Patterns for `matches`, in time linear in the text. Each pattern is compiled once per evaluation. */
export function createPatterns(meter: Meter): Patterns {
  const compiled = new Map<string, ReturnType<typeof compilePattern>>()
  return {
    matches(text, pattern) {
      if (typeof text !== 'string' || typeof pattern !== 'string') throw new Error('matches takes two strings')
      let found = compiled.get(pattern)
      if (found === undefined) {
        // A counted repetition can expand a short pattern into a large program.
        meter.charge(PATTERN_UNITS + 200 * pattern.length + (pattern.includes('{') ? REPETITION_UNITS : 0))
        found = compilePattern(pattern)
        compiled.set(pattern, found)
      }
      if ('reason' in found) throw new Error(`a pattern is refused: ${found.reason}`)
      meter.charge(text.length * found.size)
      return found.test(text)
    },
  }
}
