import { limits } from '../../contract/limits.ts'
import { namesInArguments, type UsedName } from '../templating/template-names.ts'
import { hasOperators } from '../templating/template-operators.ts'
import { type Expression, parseText, problemOfArguments } from '../templating/template-syntax.ts'
import { isTruthy, NoSuchValue, templateHelpers } from '../templating/template-values.ts'
import { type Context, evaluateArguments } from '../templating/templates.ts'
import { createMeter, type Meter, refuseWork, TooMuchWork } from '../templating/work-meter.ts'
import { evaluateCel, MissingName, namesInCel, parseCel } from './cel.ts'

/**
 * The text of a custom condition. A path or a helper call means what `{{#if …}}` means; any other text is CEL over the same
 * names. A condition that cannot be evaluated (a missing name, a comparison of incompatible types) does not hold; `missing` is
 * the name at fault.
 */
type CustomCondition = Readonly<{
  problem: string | null
  names: readonly UsedName[]
  /** `problem` says why it could not be evaluated. Throws an AppError that names `field` if it is too much work. */
  holds(context: Context, at: Readonly<{ field: string; meter?: Meter }>): Judged
}>
export type Judged = Readonly<{ holds: boolean; problem: string | null; missing?: string }>

type Evaluate = (context: Context, meter: Meter) => Judged
type Read = Readonly<{ names: readonly UsedName[]; evaluate: Evaluate }>

const cache = new Map<string, CustomCondition>()

export function parseExpression(input: string): CustomCondition {
  let found = cache.get(input)
  if (input.length > limits.expressionCharsMax) {
    return conditionOf({ problem: `an expression may have at most ${limits.expressionCharsMax} characters` })
  }
  if (found === undefined) {
    const text = input
      .trim()
      .replace(/^\{\{\{?\s*(#if\b)?/, '')
      .replace(/\}?\}\}\s*(\{\{\/if\}\})?$/, '')
      .trim()
    found = conditionOf(asTemplate(text) ?? asCel(text))
    if (cache.size >= 500) cache.clear()
    cache.set(input, found)
  }
  return found
}

function conditionOf(read: Readonly<{ problem: string }> | Read): CustomCondition {
  if ('problem' in read) {
    return { problem: read.problem, names: [], holds: () => ({ holds: false, problem: read.problem }) }
  }
  return {
    problem: null,
    names: read.names,
    holds(context, { field, meter = createMeter() }) {
      try {
        return read.evaluate(context, meter)
      } catch (error) {
        if (error instanceof MissingName) return missing(error)
        if (error instanceof NoSuchValue) return { holds: false, problem: error.message }
        throw error instanceof TooMuchWork ? refuseWork(field) : error
      }
    },
  }
}

const missing = ({ message, path }: MissingName): Judged => ({ holds: false, problem: message, missing: path })

function asTemplate(text: string): Read | undefined {
  if (hasOperators(text)) return undefined
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
  const evaluate: Evaluate = (context, meter) => {
    const value = evaluateArguments(params, context, meter, ({ name }) => {
      throw new MissingName(name)
    })
    return { holds: isTruthy(value), problem: null }
  }
  return { names: namesInArguments(params), evaluate }
}

function asCel(text: string): Readonly<{ problem: string }> | Read {
  try {
    const node = parseCel(text)
    const evaluate: Evaluate = (context, meter) => {
      try {
        return { holds: evaluateCel(node, context, meter) === true, problem: null }
      } catch (error) {
        if (error instanceof TooMuchWork || error instanceof MissingName) throw error
        return { holds: false, problem: summaryOf(error) }
      }
    }
    return { names: namesInCel(node), evaluate }
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
