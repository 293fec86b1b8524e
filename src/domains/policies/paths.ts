import { limits } from '../../contract/limits.ts'
import { invalid } from './rules.ts'

/** A name, an index of a list, or every item of a list. */
type Step = string | number | typeof EVERY
export const EVERY = Symbol('every item')
export type Path = readonly Step[]

const nameStep = /^[^.[\]*]+/
const bracketStep = /^\[(?:(\d{1,9})|(\*)|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\]/

/**
 * A path such as `to[*].address`, `a.b[0]` or `headers["x.y"]`. `[*]` stands for every item of a list, may occur several times,
 * and comes first if the value itself is a list.
 */
export function parsePath(text: string, field: string): Path {
  const steps: Step[] = []
  let rest = text
  let expectsName = true
  while (rest !== '') {
    const bracket = bracketStep.exec(rest)
    const name = bracket === null && expectsName ? nameStep.exec(rest) : null
    if (bracket === null && name === null) throw badPath(field)
    if (name !== null) steps.push(name[0])
    else steps.push(bracketed(bracket!))
    rest = rest.slice((bracket ?? name)![0].length)
    expectsName = rest.startsWith('.')
    if (!expectsName) continue
    rest = rest.slice(1)
    if (rest === '') throw badPath(field)
  }
  if (steps.length === 0) throw badPath(field)
  if (steps.length > limits.policyPathStepsMax)
    throw invalid(field, `must have at most ${limits.policyPathStepsMax} steps`)
  return steps
}

const badPath = (field: string) =>
  invalid(field, 'must be a path such as url, to[0].address, to[*].address or headers["x-name"]')

function bracketed([, index, every, double, single]: RegExpExecArray): Step {
  if (index !== undefined) return Number(index)
  if (every !== undefined) return EVERY
  return (double ?? single)!.replace(/\\(.)/g, '$1')
}

export const hasWildcard = (path: Path): boolean => path.includes(EVERY)

/**
 * The values at a path; undefined if there are more than the bound. A missing member has no value, nor does a wildcard on
 * anything but a list.
 */
export function valuesAt(path: Path, root: unknown): readonly unknown[] | undefined {
  let found: unknown[] = [root]
  for (const step of path) {
    const next: unknown[] = []
    for (const value of found) {
      if (step === EVERY) {
        if (!Array.isArray(value)) continue
        if (next.length + value.length > limits.policyValuesMax) return undefined
        for (const item of value) next.push(item)
      } else if (typeof value === 'object' && value !== null && Object.hasOwn(value, step)) {
        next.push((value as Record<Exclude<Step, symbol>, unknown>)[step])
      }
    }
    found = next
    if (found.length === 0) break
  }
  return found.filter((value) => value !== undefined)
}
