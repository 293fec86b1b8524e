import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { memberOf, type Value } from '../templating/template-values.ts'
import type { Context } from '../templating/templates.ts'
import type { Meter } from '../templating/work-meter.ts'
import { type Judged, parseExpression } from './expressions.ts'
import type { Condition, State } from './manifest-schema.ts'

/** The result of a state. The blackboard holds it under the state's name. */
export type StateResult = JsonObject

/**
 * `above` includes the threshold, so that score_above and score_below at one threshold leave no gap. Without a score, no
 * condition on scores holds.
 */
export function judgeCondition(
  condition: Condition,
  result: StateResult,
  context: Context,
  at: Readonly<{ field: string; meter?: Meter }>,
): Judged {
  if (condition.type === 'custom') return parseExpression(condition.expression).holds(context, at)
  return { holds: conditionHolds(condition, result), problem: null }
}

/** For any condition but a custom one, which needs the names of the run. */
export const holdsPlainly = (condition: Condition, result: StateResult): boolean =>
  condition.type !== 'custom' && conditionHolds(condition, result)

function conditionHolds(condition: Exclude<Condition, { type: 'custom' }>, result: StateResult): boolean {
  const [score, confidence] = [scoreOf(result), confidenceOf(result)]
  switch (condition.type) {
    case 'always':
      return true
    case 'on_success':
      return !hasFailed(result)
    case 'on_failure':
      return hasFailed(result)
    case 'timeout':
      return result['timeout'] === true
    case 'exit_code_zero':
      return exitCodeOf(result) === 0
    case 'exit_code_non_zero':
      return (exitCodeOf(result) ?? 0) !== 0
    case 'exit_code':
      return exitCodeOf(result) === condition.value
    case 'score_above':
      return score !== undefined && score >= condition.threshold
    case 'score_below':
      return score !== undefined && score < condition.threshold
    case 'score_between':
      return score !== undefined && score >= condition.min && score <= condition.max
    case 'confidence_above':
      return confidence !== undefined && confidence >= condition.threshold
    case 'score_and_confidence_above':
      return isAtLeast(score, condition.threshold) && isAtLeast(confidence, condition.threshold)
    case 'consensus':
      return isAtLeast(score, condition.threshold) && isAtLeast(confidence ?? 0, condition.agreement)
    case 'all_approved':
    case 'any_rejected': {
      const scores = individualScores(result)
      if (condition.type === 'any_rejected') return scores.some((one) => one < condition.threshold)
      return scores.length > 0 && scores.every((one) => one >= condition.threshold)
    }
    case 'input_equals':
      return responseOf(result) === condition.value.trim()
    case 'input_equals_yes':
      return yes.has(responseOf(result)?.toLowerCase() ?? '')
    case 'input_equals_no':
      return no.has(responseOf(result)?.toLowerCase() ?? '')
  }
}

const yes = new Set(['yes', 'y', '1', 'approve', 'approved', 'true'])
const no = new Set(['no', 'n', '0', 'reject', 'rejected', 'false'])

/** Whether both mean yes, or both mean no. */
export const agreesWith = (answer: string, word: string): boolean =>
  [yes, no].some((words) => words.has(answer.trim().toLowerCase()) && words.has(word))

const isAtLeast = (value: number | undefined, least: number): boolean => value !== undefined && value >= least

export function hasFailed(result: StateResult): boolean {
  const { status } = result
  if (status === 'failed' || status === 'error' || result['overall_success'] === false) return true
  return status === undefined && (exitCodeOf(result) ?? 0) !== 0
}

const failures: ReadonlySet<string> = new Set(['on_failure', 'exit_code_non_zero', 'timeout'])

/** A state whose transitions all require a failure ends the run when it succeeds. */
export const isEndOfSuccess = ({ transitions }: Pick<State, 'transitions'>): boolean =>
  transitions.length > 0 && transitions.every(({ condition }) => failures.has(condition.type))

const numberAt = (value: Value, ...path: readonly string[]): number | undefined => {
  const found = path.reduce<Value>((at, key) => memberOf(at, key), value)
  return typeof found === 'number' ? found : undefined
}

const exitCodeOf = (result: StateResult): number | undefined =>
  numberAt(result, 'exit_code') ?? numberAt(result, 'output', 'exit_code')

/**
 * The consensus score, or the judges' score. Only without both does the state's own score count. Several agents have no score
 * but their consensus: without one, the output is that of an agent that does not count.
 */
const gradeOf = (result: StateResult, key: 'score' | 'confidence'): number | undefined =>
  result['agents'] === undefined ? ownGradeOf(result, key) : numberAt(result, 'consensus', key)

const ownGradeOf = (result: StateResult, key: 'score' | 'confidence'): number | undefined =>
  numberAt(result, 'consensus', key) ??
  (result['judges'] === undefined ? undefined : numberAt(result, key)) ??
  numberAt(result, 'output', key) ??
  numberAt(result, `final_${key}`) ??
  numberAt(result, key)

export const scoreOf = (result: StateResult): number | undefined => gradeOf(result, 'score')
const confidenceOf = (result: StateResult): number | undefined => gradeOf(result, 'confidence')

function individualScores(result: StateResult): readonly number[] {
  const found = result['individual_scores'] ?? memberOf(result['consensus'], 'individual_scores')
  if (!Array.isArray(found)) return []
  return found.flatMap((one: Json) => (typeof one === 'number' ? one : (numberAt(one, 'score') ?? [])))
}

/** White space around an answer carries no meaning. */
const responseOf = (result: StateResult): string | undefined =>
  typeof result['response'] === 'string' ? result['response'].trim() : undefined
