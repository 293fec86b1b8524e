import type { IntentState } from './ports.ts'

const VISITS_MAX = 3
const TRANSITIONS_MAX = 20

/** The decision of a state: the next state, and the reason if it is a step back. */
export type Move =
  | Readonly<{ to: IntentState; reason?: string }>
  | Readonly<{ stop: string }>
  | Readonly<{ done: string }>

/** Bounds visits, so that a pipeline that never succeeds ends. */
export function createVisitCounter() {
  const visits = new Map<IntentState, number>()
  let transitions = 0
  return {
    transitions: () => transitions,
    /** The number of the visit, or the reason why it is refused. */
    enter(state: IntentState): Readonly<{ visit: number }> | Readonly<{ refused: string }> {
      const visit = (visits.get(state) ?? 0) + 1
      if (visit > VISITS_MAX) return { refused: `${state} was tried ${VISITS_MAX} times, which is the limit` }
      if (transitions >= TRANSITIONS_MAX) return { refused: `it took ${TRANSITIONS_MAX} steps, which is the limit` }
      visits.set(state, visit)
      transitions++
      return { visit }
    },
  }
}
