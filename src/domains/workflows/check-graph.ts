import { nearestName } from '../../kernel/nearest-name.ts'
import { type Findings, quoted } from '../manifests/findings.ts'
import { acceptedAnswers } from './answers.ts'
import { isEndOfSuccess } from './conditions.ts'
import type { Condition, State } from './manifest-schema.ts'

type Graph = ReadonlyMap<string, Readonly<{ transitions: readonly Readonly<{ target: unknown }>[] }>>

/** Reports transitions to states that do not exist as errors. */
export function checkTargets(findings: Findings, initialState: string | undefined, states: Graph): void {
  const check = (field: string, name: unknown): void => {
    if (typeof name !== 'string' || states.has(name)) return
    const near = nearestName(name, states.keys())
    findings.error(field, `there is no state ${quoted(name)}${near ? `; did you mean ${near}?` : ''}`)
  }
  check('spec.initial_state', initialState)
  for (const [name, { transitions }] of states) {
    for (const [index, { target }] of transitions.entries()) {
      check(`spec.states.${name.slice(0, 64)}.transitions[${index}].target`, target)
    }
  }
}

/** Warns of unreachable states, of cycles without an exit, and of outcomes that no transition takes. */
export function checkGraph(findings: Findings, initialState: string, states: ReadonlyMap<string, State>): void {
  for (const [name, state] of states) warnOfGaps(findings, name, state)
  if (!states.has(initialState)) return
  const reached = reachableFrom(initialState, states)
  for (const name of states.keys()) {
    if (!reached.has(name)) findings.warn(`spec.states.${name}`, 'is never reached from the initial state')
  }
  const finalizer = statesThatCanEnd(states)
  const stuck = [...reached].filter((name) => !finalizer.has(name))
  if (stuck.length > 0) {
    findings.warn(
      'spec.states',
      `no transition leads out of ${stuck.slice(0, 10).join(', ')}; only the limits on visits and transitions end such a run`,
    )
  }
}

function reachableFrom(start: string, states: ReadonlyMap<string, State>): ReadonlySet<string> {
  const reached = new Set([start])
  for (const name of reached) {
    for (const { target } of states.get(name)?.transitions ?? []) if (states.has(target)) reached.add(target)
  }
  return reached
}

/** The states from which a path leads to a terminal state. */
function statesThatCanEnd(states: ReadonlyMap<string, State>): ReadonlySet<string> {
  const finalizer = new Set<string>()
  for (let grew = true; grew; ) {
    grew = false
    for (const [name, { transitions }] of states) {
      if (finalizer.has(name)) continue
      if (
        transitions.length > 0 &&
        !isEndOfSuccess({ transitions }) &&
        !transitions.some(({ target }) => finalizer.has(target))
      )
        continue
      finalizer.add(name)
      grew = true
    }
  }
  return finalizer
}

const scoreConditions = new Set<Condition['type']>([
  'score_above',
  'score_below',
  'score_between',
  'score_and_confidence_above',
])

/** An outcome that no transition takes fails the run, so it is reported where it can be foreseen. */
function warnOfGaps(findings: Findings, name: string, state: State): void {
  const { transitions } = state
  if (transitions.length === 0) return
  const at = `spec.states.${name}.transitions`
  const types = transitions.map(({ condition }) => condition.type)
  const always = types.indexOf('always')
  if (always >= 0 && always < types.length - 1)
    findings.warn(`${at}[${always}]`, 'always holds, so what follows is never tried')
  if (always >= 0) return
  if (state.kind === 'Human') {
    // An answer that no transition takes is refused, and the run keeps waiting.
    if (acceptedAnswers(state)?.length === 0) findings.warn(at, 'no answer leads to another state; add input_equals')
    return
  }
  if (isEndOfSuccess({ transitions })) {
    findings.warn(at, 'only match failures, so success ends the run here; add on_success if it should continue')
    return
  }
  const pairs: readonly (readonly [Condition['type'], Condition['type']])[] = [
    ['on_success', 'on_failure'],
    ['exit_code_zero', 'exit_code_non_zero'],
  ]
  if (pairs.some(([left, right]) => types.includes(left) && types.includes(right))) return
  if (
    types.some((type) => scoreConditions.has(type)) &&
    types.includes('score_below') &&
    types.includes('score_above')
  ) {
    if (!types.includes('on_failure'))
      findings.warn(at, 'a state that fails has no score; add on_failure or always, or the run fails there')
    const gap = scoreGap(transitions.map(({ condition }) => condition))
    if (gap !== undefined)
      findings.warn(
        at,
        `a score from ${gap.from} to ${gap.to} matches none of these and fails the run; add score_between`,
      )
    return
  }
  findings.warn(at, 'a result that matches none of these fails the run; add condition: always at the end to be safe')
}

/** The scores between score_below and score_above that no score_between takes. */
function scoreGap(conditions: readonly Condition[]): Readonly<{ from: number; to: number }> | undefined {
  const thresholds = (type: 'score_above' | 'score_below'): readonly number[] =>
    conditions.flatMap((one) => (one.type === type ? one.threshold : []))
  const to = Math.min(...thresholds('score_above'))
  const ranges = conditions.flatMap((one) => (one.type === 'score_between' ? one : []))
  let from = Math.max(...thresholds('score_below'))
  for (const { min, max } of ranges.toSorted((a, b) => a.min - b.min)) if (min <= from) from = Math.max(from, max)
  return from < to ? { from, to } : undefined
}
