import { limits } from '../../contract/limits.ts'
import { type Expression, parseText, problemOfArguments } from '../texts/template-syntax.ts'
import { isTruthy, templateHelpers } from '../texts/template-values.ts'
import { type Context, evaluateArguments } from '../texts/templates.ts'
import { createMeter, type Meter, refuseWork, TooMuchWork } from '../texts/work-meter.ts'
import { evaluateCel, parseCel } from './cel.ts'

/**
 * The text of a custom condition. A path or a helper call means what `{{#if …}}` means; everything else is read as CEL, over
 * the same names. What cannot be evaluated (a name that is not there, a comparison that has no sense) does not hold.
 */
export type CustomCondition = Readonly<{
  problem: string | null
  /** `problem` says why it could not be evaluated. Throws an AppError that names `field` when it is too much work. */
  holds(context: Context, at: Readonly<{ field: string; meter?: Meter }>): Judged
}>
export type Judged = Readonly<{ holds: boolean; problem: string | null }>

type Evaluate = (context: Context, meter: Meter) => Judged

const cache = new Map<string, CustomCondition>()

export function parseExpression(given: string): CustomCondition {
  let found = cache.get(given)
  if (given.length > limits.expressionCharsMax) {
    return conditionOf({ problem: `an expression may have ${limits.expressionCharsMax} characters` })
  }
  if (found === undefined) {
    const text = given
      .trim()
      .replace(/^\{\{\{?\s*(#if\b)?/, '')
      .replace(/\}?\}\}\s*(\{\{\/if\}\})?$/, '')
      .trim()
    found = conditionOf(asTemplate(text) ?? asCel(text))
    if (cache.size >= 500) cache.clear()
    cache.set(given, found)
  }
  return found
}

function conditionOf(read: Readonly<{ problem: string }> | Evaluate): CustomCondition {
  if ('problem' in read) return { problem: read.problem, holds: () => ({ holds: false, problem: read.problem }) }
  return {
    problem: null,
    holds(context, { field, meter = createMeter() }) {
      try {
        return read(context, meter)
      } catch (error) {
        throw error instanceof TooMuchWork ? refuseWork(field) : error
      }
    },
  }
}

function asTemplate(text: string): Evaluate | undefined {
  let params: readonly Expression[]
  try {
    const [block] = parseText(`{{#if ${text}}}x{{/if}}`).body
    if (block?.type !== 'BlockStatement' || block.hash !== undefined) return undefined
    params = block.params
  } catch {
    return undefined
  }
  const [first] = params
  if (first === undefined) return undefined
  const isCall = first.type === 'PathExpression' && templateHelpers.has(first.original)
  if ((params.length > 1 && !isCall) || problemOfArguments(params) !== null) return undefined
  return (context, meter) => ({ holds: isTruthy(evaluateArguments(params, context, meter)), problem: null })
}

function asCel(text: string): Readonly<{ problem: string }> | Evaluate {
  try {
    const node = parseCel(text)
    return (context, meter) => {
      try {
        return { holds: evaluateCel(node, context, meter) === true, problem: null }
      } catch (error) {
        if (error instanceof TooMuchWork) throw error
        return { holds: false, problem: summaryOf(error) }
      }
    }
  } catch (error) {
    return {
      problem: `${summaryOf(error)}; write a path, a helper call, or a comparison such as score > 0.8 && state.ok == true`,
    }
  }
}

const summaryOf = (error: unknown): string =>
  String((error as { summary?: unknown }).summary ?? (error as Error).message)
    .slice(0, 200)
    .toWellFormed()
