import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { memberOf } from '../templating/template-values.ts'
import type { State, StateKind } from './manifest-schema.ts'

/**
 * The members of a name: `any` is known only at run time, `one` is a scalar. A listed member may be empty, unless `comes` says
 * more.
 */
export type Shape = 'any' | 'one' | Members
export type Members = Readonly<{
  names: ReadonlyMap<string, Member>
  /** The caller that starts a run may add members. */
  isOpen?: boolean
}>
export type Member = Readonly<{
  shape: Shape
  /** Set by a state that must run first, by what such a state writes, or only if a judge gives a score. */
  comes?: 'state' | 'written' | 'graded'
}>

export const members = (
  shapes: Readonly<Record<string, Shape | Member>>,
  more: Readonly<{ isOpen?: boolean }> = {},
): Members => ({
  names: new Map(
    Object.entries(shapes).map(([name, one]) => [
      name,
      typeof one === 'object' && 'shape' in one ? one : { shape: one },
    ]),
  ),
  ...more,
})

const ones = (names: string): Readonly<Record<string, Shape>> =>
  Object.fromEntries(names.split(' ').map((name) => [name, 'one']))

const failure = ones('status error error_code timeout')
const handled = ones('handled output_handler_error')
const command = ones('exit_code stdout stderr duration_ms truncated timeout')
const grades: Readonly<Record<string, Member>> = {
  score: { shape: 'one', comes: 'graded' },
  confidence: { shape: 'one', comes: 'graded' },
}

/** The result of each kind of state. */
const shapes: { readonly [Kind in StateKind]: (state: Extract<State, { kind: Kind }>) => Members } = {
  System: () => members({ ...failure, ...command, written: 'any', output: members(command) }),
  ContainerRun({ outputHandler }) {
    const ran = { ...command, ...ones('attempts') }
    return members({ ...failure, ...ran, ...handled, output: outputHandler === null ? members(ran) : 'any' })
  },
  ParallelContainerRun({ steps }) {
    const step = members({ ...failure, ...command })
    const output = members(Object.fromEntries(steps.map(({ name }) => [name, step])))
    return members({ ...failure, ...ones('overall_success succeeded failed'), results: 'any', output })
  },
  Agent: () =>
    members({ ...failure, ...handled, ...ones('iterations execution_id'), ...grades, output: 'any', judges: 'any' }),
  ParallelAgents() {
    const consensus = members({ ...ones('score confidence strategy'), metadata: 'any' })
    const lists: Readonly<Record<string, Shape>> = { agents: 'any', individual_scores: 'any', output: 'any' }
    return members({ ...failure, ...handled, ...grades, ...lists, consensus })
  },
  Human: () => members({ ...failure, ...ones('response by'), feedback: 'any', actor: 'any' }),
  Subworkflow: () => members({ ...failure, ...ones('execution_id mode workflow_id workflow_name'), output: 'any' }),
}

export const shapeOfState = (state: State): Members => shapes[state.kind](state as never)

/**
 * A result as templates see it: commands of every kind have `output`, and scores have the same path for every kind. It is
 * computed on access, so that journals store each value once.
 */
export function resultView({ kind }: State, result: JsonObject): JsonObject {
  if (kind === 'System' && result['output'] === undefined) {
    const output = Object.entries(result).filter(([name]) => Object.hasOwn(command, name))
    return { ...result, output: Object.fromEntries(output) as Json }
  }
  const consensus = kind === 'ParallelAgents' ? result['consensus'] : undefined
  if (consensus === undefined) return result
  const [score, confidence] = [memberOf(consensus, 'score'), memberOf(consensus, 'confidence')]
  return { ...(score !== undefined && { score }), ...(confidence !== undefined && { confidence }), ...result }
}
