import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { showBraces, standsInFor } from './template-braces.ts'
import { type UsedName, usedName, useOfArguments } from './template-names.ts'
import {
  type Block,
  type Call,
  type Expression,
  isSection,
  type Path,
  type Program,
  parseProblem,
  parseText,
  problemOfProgram,
} from './template-syntax.ts'
import {
  displayedTo,
  type Helper,
  isTruthy,
  memberOf,
  NoSuchValue,
  type Rendering,
  templateHelpers,
  type Value,
} from './template-values.ts'
import { createMeter, type Meter, refuseWork, shallowUnits, TooMuchWork } from './work-meter.ts'

export type Context = { readonly [key: string]: Json | undefined }

/** `field` names the text in errors; texts that are rendered together share a meter. */
type RenderOptions = Readonly<{
  field: string
  meter?: Meter
  charsMax?: number
  helpers?: ReadonlyMap<string, Helper>
  /** Objects that are rendered as something other than their JSON. */
  texts?: ReadonlyMap<object, string>
  /** Called for each displayed name without a value. Its error becomes the error of the text. */
  missing?: OnMissing | undefined
}>
export type OnMissing = (used: UsedName) => void

/**
 * Handlebars templates, without escaping: `{{x}}` and `{{{x}}}` are the same, so that JSON stays JSON. The library
 * parses; the evaluation is ours, so that nothing is compiled to code, nothing of a prototype is reachable, and work
 * and output are bounded. A missing name is empty, unless `missing` decides otherwise.
 */
type Template = Readonly<{ problem: string | null; program: Program }>

const cache = new Map<string, Template>()
const CACHE_MAX = 500

export function parseTemplate(text: string): Template {
  const known = cache.get(text)
  if (known !== undefined) return known
  const template = prepare(text)
  if (cache.size >= CACHE_MAX) cache.clear()
  cache.set(text, template)
  return template
}

function prepare(text: string): Template {
  const broken = (problem: string): Template => ({ problem, program: { body: [] } })
  if (standsInFor.test(text)) return broken('it contains a character that is not allowed in text (U+FDD0 or U+FDD1)')
  try {
    const program = parseText(text)
    return { problem: problemOfProgram(program), program }
  } catch (error) {
    return broken(parseProblem(error))
  }
}

/** Whether the text is a single sum, so that its result is a number. */
export function isSum(text: string): boolean {
  const { problem, program } = parseTemplate(text)
  const [only, ...rest] = program.body
  if (problem !== null || rest.length > 0 || only?.type !== 'MustacheStatement') return false
  return only.path.type === 'PathExpression' && only.params.length > 0 && useOfArguments(only.path.original) === 'sum'
}

/** The expression of a text that consists of one name or call: its value can be used without conversion. */
export function soleExpression(text: string): readonly Expression[] | undefined {
  const { problem, program } = parseTemplate(text)
  const [only, ...rest] = program.body
  if (problem !== null || rest.length > 0 || only?.type !== 'MustacheStatement') return undefined
  return [only.path, ...only.params]
}

/** Throws an AppError if the text is not a template, or exceeds its work or output budget. */
export function renderTemplate(text: string, context: Context, options: RenderOptions): string {
  if (!text.includes('{{')) return text
  const { field, meter = createMeter(), charsMax = limits.templateCharsMax, helpers = templateHelpers, texts } = options
  const { missing } = options
  const { problem, program } = parseTemplate(text)
  if (problem !== null) {
    throw new AppError('ERR_TEMPLATE_INVALID', `${field}: the template cannot be read: ${problem}`, { field })
  }
  try {
    const page: Page = { meter, texts, helpers, missing, parts: [], evaluation: { chars: charsMax } }
    walk(program, rootScope(context), page)
    return page.parts.join('')
  } catch (error) {
    if (error instanceof TooMuchText) {
      throw new AppError(
        'ERR_TOO_LARGE',
        `${field}: a template may produce at most ${charsMax} characters; output less, for example one field instead of the whole.`,
        { field, chars_max: charsMax },
      )
    }
    if (error instanceof NoSuchValue) {
      throw new AppError('ERR_TEMPLATE_INVALID', `${field}: ${error.message}.`, { field })
    }
    throw error instanceof TooMuchWork ? refuseWork(field) : error
  }
}

class TooMuchText extends Error {}

type Scope = Readonly<{
  value: Value
  data: ReadonlyMap<string, Value>
  names: ReadonlyMap<string, Value>
  outer: Scope | undefined
}>
type Evaluation = Rendering & Readonly<{ helpers: ReadonlyMap<string, Helper>; missing?: OnMissing | undefined }>
type Page = Evaluation & Readonly<{ parts: string[]; evaluation: { chars: number } }>

const none: ReadonlyMap<string, Value> = new Map()

const rootScope = (context: Context): Scope => ({
  value: context,
  data: new Map([['root', context as Value]]),
  names: none,
  outer: undefined,
})

/** One value, as `{{#if expression}}` would see it. May throw TooMuchWork, and the errors of `missing`. */
export function evaluateArguments(
  params: readonly Expression[],
  context: Context,
  meter: Meter,
  missing?: OnMissing | undefined,
): Value {
  return valueOfParams(params, rootScope(context), { meter, helpers: templateHelpers, missing })
}

const quiet = <T extends Evaluation>(evaluation: T): T =>
  evaluation.missing === undefined ? evaluation : { ...evaluation, missing: undefined }

function valueOfParams([first, ...rest]: readonly Expression[], scope: Scope, evaluation: Evaluation): Value {
  return rest.length > 0
    ? callHelper({ path: first!, params: rest }, scope, evaluation)
    : evaluate(first!, scope, evaluation)
}

function emit({ parts, evaluation, meter }: Page, text: string): void {
  evaluation.chars -= text.length
  if (evaluation.chars < 0) throw new TooMuchText('too much text')
  meter.charge(text.length)
  parts.push(text)
}

function walk(program: Program | undefined, scope: Scope, page: Page): void {
  for (const statement of program?.body ?? []) {
    page.meter.step()
    if (statement.type === 'ContentStatement') emit(page, showBraces(statement.value))
    else if (statement.type === 'MustacheStatement') emit(page, displayedTo(resultOf(statement, scope, page), page))
    else if (statement.type === 'BlockStatement') walkBlock(statement, scope, page)
  }
}

function walkBlock(block: Block, scope: Scope, page: Page): void {
  const names = block.program?.blockParams ?? []
  if (isSection(block)) {
    walkSection(block, evaluate(block.path, scope, quiet(page)), scope, page)
    return
  }
  const name = (block.path as Path).original
  const value = valueOfParams(block.params, scope, quiet(page))
  if (name === 'each') {
    walkEach(block, value, scope, page, names)
    return
  }
  const holds = isTruthy(value) !== (name === 'unless')
  if (!holds) walk(block.inverse, scope, page)
  else walk(block.program, name === 'with' ? inner(scope, value, none, [[names[0], value]]) : scope, page)
}

function walkSection(block: Block, value: Value, scope: Scope, page: Page): void {
  if (Array.isArray(value)) walkEach(block, value, scope, page, block.program?.blockParams ?? [])
  else if (!isTruthy(value)) walk(block.inverse, scope, page)
  else walk(block.program, value === true ? scope : inner(scope, value, none, []), page)
}

function walkEach(block: Block, value: Value, scope: Scope, page: Page, names: readonly string[]): void {
  page.meter.charge(shallowUnits(value))
  const entries: readonly [string | number, Value][] = Array.isArray(value)
    ? value.map((item, index) => [index, item as Value])
    : typeof value === 'object' && value !== null
      ? Object.entries(value)
      : []
  if (entries.length === 0) walk(block.inverse, scope, page)
  for (const [index, [key, item]] of entries.entries()) {
    page.meter.step()
    page.meter.step()
    const data = new Map<string, Value>([
      ...scope.data,
      ['index', index],
      ['key', key],
      ['first', index === 0],
      ['last', index === entries.length - 1],
    ])
    walk(
      block.program,
      inner(scope, item, data, [
        [names[0], item],
        [names[1], key],
      ]),
      page,
    )
  }
}

const inner = (
  outer: Scope,
  value: Value,
  data: ReadonlyMap<string, Value>,
  named: readonly (readonly [string | undefined, Value])[],
): Scope => ({
  value,
  data: data === none ? outer.data : data,
  names: new Map([
    ...outer.names,
    ...named.flatMap(([name, item]) => (name === undefined ? [] : [[name, item] as const])),
  ]),
  outer,
})

function resultOf(call: Call, scope: Scope, evaluation: Evaluation): Value {
  return call.params.length > 0 ? callHelper(call, scope, evaluation) : evaluate(call.path, scope, evaluation)
}

function callHelper({ path, params }: Call, scope: Scope, evaluation: Evaluation): Value {
  evaluation.meter.step()
  const name = path.type === 'PathExpression' ? path.original : ''
  const inner = evaluationOfArguments(name, evaluation)
  return evaluation.helpers.get(name)?.(
    params.map((param) => evaluate(param, scope, inner)),
    evaluation,
  )
}

/** A name used in a test, or with a default, may have no value. */
function evaluationOfArguments(helper: string, evaluation: Evaluation): Evaluation {
  const use = useOfArguments(helper)
  if (evaluation.missing === undefined || use === 'text') return evaluation
  return use === 'test'
    ? quiet(evaluation)
    : { ...evaluation, missing: (used) => evaluation.missing?.({ ...used, use }) }
}

function evaluate(expression: Expression, scope: Scope, evaluation: Evaluation): Value {
  evaluation.meter.step()
  switch (expression.type) {
    case 'PathExpression':
      evaluation.meter.charge(10 * (expression.depth + expression.parts.length))
      return valueAt(expression, scope, evaluation)
    case 'SubExpression':
      return resultOf(expression, scope, evaluation)
    case 'NullLiteral':
      return null
    case 'UndefinedLiteral':
      return undefined
    default:
      return expression.value
  }
}

function valueAt(path: Path, scope: Scope, { missing }: Evaluation): Value {
  const value = follow(path, scope)
  if (value === undefined) missing?.(usedName(path, levelOf(scope), scope.names, 'text'))
  return value
}

const levelOf = ({ outer }: Scope): number => (outer === undefined ? 0 : 1 + levelOf(outer))

function follow({ data, depth, parts, original }: Path, scope: Scope): Value {
  let from: Scope | undefined = scope
  for (let level = 0; level < depth; level++) from = from?.outer
  if (from === undefined) return undefined
  const [first, ...rest] = parts
  if (first === undefined) return from.value
  const isNamed = !data && depth === 0 && !/^this\b/.test(original) && from.names.has(first)
  const start = data ? from.data.get(first) : isNamed ? from.names.get(first) : memberOf(from.value, first)
  return rest.reduce<Value>((value, key) => memberOf(value, key), start)
}
