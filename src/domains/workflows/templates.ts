import { createRequire } from 'node:module'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { separateBraces, showBraces, standsInFor } from './template-braces.ts'
import { isTruthy, memberOf, shown, templateHelpers, type Value } from './template-values.ts'

/**
 * Handlebars texts, without escaping: `{{x}}` and `{{{x}}}` are the same, so that JSON stays JSON. The library parses; what
 * the text does is done here, so that nothing is compiled to code, nothing of a prototype is reachable, and the work and
 * the output have a bound. A name that is not there is empty.
 */
export type Template = Readonly<{ problem: string | null; render(context: Context): string }>
export type Context = { readonly [key: string]: Json | undefined }

type Path = Readonly<{
  type: 'PathExpression'
  data: boolean
  depth: number
  parts: readonly string[]
  original: string
}>
type Call = Readonly<{ path: Expression; params: readonly Expression[]; hash?: unknown }>
export type Expression =
  | Path
  | Readonly<{ type: 'StringLiteral' | 'NumberLiteral' | 'BooleanLiteral'; value: string | number | boolean }>
  | Readonly<{ type: 'UndefinedLiteral' | 'NullLiteral' }>
  | (Call & Readonly<{ type: 'SubExpression' }>)
type Program = Readonly<{ body: readonly Statement[]; blockParams?: readonly string[] }>
type Block = Call & Readonly<{ type: 'BlockStatement'; program?: Program; inverse?: Program }>
type Statement =
  | Readonly<{ type: 'ContentStatement'; value: string }>
  | Readonly<{ type: 'CommentStatement' }>
  | (Call & Readonly<{ type: 'MustacheStatement' }>)
  | Block
  | Readonly<{ type: 'PartialStatement' | 'PartialBlockStatement' | 'Decorator' | 'DecoratorBlock' }>

type Scope = Readonly<{
  value: Value
  data: ReadonlyMap<string, Value>
  names: ReadonlyMap<string, Value>
  outer: Scope | undefined
}>

const blocks = ['if', 'unless', 'each', 'with']
let parse: ((text: string) => Program) | undefined

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

/** Throws an AppError when the text is no template or its work has no bound. */
export const renderTemplate = (text: string, context: Context): string =>
  text.includes('{{') ? parseTemplate(text).render(context) : text

function prepare(text: string): Template {
  if (standsInFor.test(text)) return broken('it contains a character that no text has (U+FDD0 or U+FDD1)')
  try {
    const program = parseText(text)
    const problem = problemOfProgram(program)
    if (problem !== null) return broken(problem)
    return { problem: null, render: (context) => run(program, context) }
  } catch (error) {
    return broken(parseProblem(error))
  }
}

export function parseText(text: string): Program {
  parse ??= (createRequire(import.meta.url)('handlebars') as typeof import('handlebars')).parse as unknown as (
    text: string,
  ) => Program
  return parse(separateBraces(text))
}

/** The library's message shows where; what it expected there helps nobody. */
export function parseProblem(error: unknown): string {
  const lines = String((error as Error).message ?? error).split('\n')
  const place = showBraces(lines.slice(0, 2).join(' ')).slice(0, 200)
  return `${place}; inside {{ }} are paths and helpers, and comparisons are written as (gt a b), (eq a b) and so on`
}

const broken = (problem: string): Template => ({
  problem,
  render() {
    throw new AppError('ERR_INVALID_INPUT', `A template cannot be read: ${problem}`, { field: 'template' })
  },
})

function problemOfProgram(program: Program | undefined): string | null {
  for (const statement of program?.body ?? []) {
    const problem = problemOfStatement(statement)
    if (problem !== null) return problem
  }
  return null
}

function problemOfStatement(statement: Statement): string | null {
  switch (statement.type) {
    case 'ContentStatement':
    case 'CommentStatement':
      return null
    case 'MustacheStatement':
      return problemOfCall(statement)
    case 'BlockStatement': {
      const name = statement.path.type === 'PathExpression' ? statement.path.original : ''
      if (!blocks.includes(name)) return `there is no block #${name.slice(0, 40)}; use ${blocks.join(', ')}`
      if (statement.params.length === 0) return `#${name} needs a value`
      return (
        problemOfArguments(statement.params) ??
        problemOfProgram(statement.program) ??
        problemOfProgram(statement.inverse)
      )
    }
    default:
      return 'partials and decorators are not used here'
  }
}

function problemOfCall({ path, params }: Call): string | null {
  if (params.length === 0 || path.type !== 'PathExpression') return null
  if (!templateHelpers.has(path.original)) {
    return `there is no helper ${path.original.slice(0, 40)}; use ${[...templateHelpers.keys()].join(', ')}`
  }
  return problemOfArguments(params)
}

export function problemOfArguments(params: readonly Expression[]): string | null {
  for (const param of params) {
    const problem = param.type === 'SubExpression' ? problemOfCall(param) : null
    if (problem !== null) return problem
  }
  return null
}

type Work = { steps: number; chars: number }

const none: ReadonlyMap<string, Value> = new Map()

function run(program: Program, context: Context): string {
  const parts: string[] = []
  const work: Work = { steps: 0, chars: 0 }
  walk(program, rootScope(context), { parts, work })
  return parts.join('')
}

const rootScope = (context: Context): Scope => ({
  value: context,
  data: new Map([['root', context as Value]]),
  names: none,
  outer: undefined,
})

/** One value, as `{{#if expression}}` would see it. */
export function evaluateArguments(params: readonly Expression[], context: Context): Value {
  const scope = rootScope(context)
  const work: Work = { steps: 0, chars: 0 }
  const [first, ...rest] = params
  if (rest.length > 0) return callHelper({ path: first!, params: rest }, scope, work)
  return evaluate(first!, scope, work)
}

type Output = Readonly<{ parts: string[]; work: Work }>

function spend(work: Work, chars: number): void {
  work.steps++
  work.chars += chars
  if (work.steps > limits.templateStepsMax || work.chars > limits.templateCharsMax) {
    throw new AppError(
      'ERR_TOO_LARGE',
      `A template may do ${limits.templateStepsMax} steps and make ${limits.templateCharsMax} characters; make it or its values smaller.`,
      { field: 'template' },
    )
  }
}

function emit(output: Output, text: string): void {
  spend(output.work, text.length)
  output.parts.push(text)
}

function walk(program: Program | undefined, scope: Scope, output: Output): void {
  for (const statement of program?.body ?? []) {
    if (statement.type === 'ContentStatement') emit(output, showBraces(statement.value))
    else if (statement.type === 'MustacheStatement') emit(output, shown(resultOf(statement, scope, output.work)))
    else if (statement.type === 'BlockStatement') walkBlock(statement, scope, output)
  }
}

function walkBlock(block: Block, scope: Scope, output: Output): void {
  const name = (block.path as Path).original
  const [first, ...rest] = block.params
  const value =
    rest.length > 0
      ? callHelper({ path: first!, params: rest }, scope, output.work)
      : evaluate(first!, scope, output.work)
  const names = block.program?.blockParams ?? []
  if (name === 'each') {
    walkEach(block, value, scope, output, names)
    return
  }
  const holds = isTruthy(value) !== (name === 'unless')
  if (!holds) {
    walk(block.inverse, scope, output)
    return
  }
  walk(block.program, name === 'with' ? inner(scope, value, none, [[names[0], value]]) : scope, output)
}

function walkEach(block: Block, value: Value, scope: Scope, output: Output, names: readonly string[]): void {
  const entries: readonly [string | number, Value][] = Array.isArray(value)
    ? value.map((item, index) => [index, item as Value])
    : typeof value === 'object' && value !== null
      ? Object.entries(value)
      : []
  if (entries.length === 0) walk(block.inverse, scope, output)
  for (const [index, [key, item]] of entries.entries()) {
    spend(output.work, 0)
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
      output,
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

function resultOf(call: Call, scope: Scope, work: Work): Value {
  return call.params.length > 0 ? callHelper(call, scope, work) : evaluate(call.path, scope, work)
}

function callHelper({ path, params }: Call, scope: Scope, work: Work): Value {
  const helper = path.type === 'PathExpression' ? templateHelpers.get(path.original) : undefined
  const answer = helper?.(params.map((param) => evaluate(param, scope, work)))
  spend(work, typeof answer === 'string' ? answer.length : 0)
  return answer
}

function evaluate(expression: Expression, scope: Scope, work: Work): Value {
  spend(work, 0)
  switch (expression.type) {
    case 'PathExpression':
      return follow(expression, scope)
    case 'SubExpression':
      return resultOf(expression, scope, work)
    case 'NullLiteral':
      return null
    case 'UndefinedLiteral':
      return undefined
    default:
      return expression.value
  }
}

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
