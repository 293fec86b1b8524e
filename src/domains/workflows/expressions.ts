import { createRequire } from 'node:module'
import { compilePattern } from '../agents/json-schema.ts'
import { isTruthy, templateHelpers } from './template-values.ts'
import { type Context, type Expression, evaluateArguments, parseText, problemOfArguments } from './templates.ts'

/**
 * The text of a custom condition. A path or a helper call means what `{{#if …}}` means; everything else is read as CEL, over
 * the same names. What cannot be evaluated (a name that is not there, a comparison that has no sense) does not hold.
 */
export type CustomCondition = Readonly<{
  problem: string | null
  /** `problem` says why it could not be evaluated. */
  holds(context: Context): Readonly<{ holds: boolean; problem: string | null }>
}>

type CelNode = { op: string; args: unknown }
type Cel = typeof import('@marcbachmann/cel-js')
const comprehensions = new Set(['all', 'exists', 'exists_one', 'map', 'filter'])

const cache = new Map<string, CustomCondition>()

export function parseExpression(given: string): CustomCondition {
  let found = cache.get(given)
  if (found === undefined) {
    const text = given
      .trim()
      .replace(/^\{\{\{?\s*(#if\b)?/, '')
      .replace(/\}?\}\}\s*(\{\{\/if\}\})?$/, '')
      .trim()
    found = asTemplate(text) ?? asCel(text)
    if (cache.size >= 500) cache.clear()
    cache.set(given, found)
  }
  return found
}

function asTemplate(text: string): CustomCondition | undefined {
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
  return { problem: null, holds: (context) => ({ holds: isTruthy(evaluateArguments(params, context)), problem: null }) }
}

function asCel(text: string): CustomCondition {
  const { library, environment } = openCel()
  try {
    const first = environment.parse(text)
    const problem = refusalOf(first.ast as CelNode, 0)
    if (problem !== null) return never(problem)
    const safe = library.serialize(first.ast)
    const compiled = environment.parse(safe)
    return {
      problem: null,
      holds(context) {
        try {
          return { holds: compiled({ ...context }) === true, problem: null }
        } catch (error) {
          return { holds: false, problem: summaryOf(error) }
        }
      },
    }
  } catch (error) {
    return never(
      `${summaryOf(error)}; write a path, a helper call, or a comparison such as score > 0.8 && state.ok == true`,
    )
  }
}

const summaryOf = (error: unknown): string =>
  String((error as { summary?: unknown }).summary ?? (error as Error).message)
    .slice(0, 200)
    .toWellFormed()

const never = (problem: string): CustomCondition => ({ problem, holds: () => ({ holds: false, problem }) })

let opened: { library: Cel; environment: InstanceType<Cel['Environment']> } | undefined

function openCel() {
  if (opened !== undefined) return opened
  const library = createRequire(import.meta.url)('@marcbachmann/cel-js') as Cel
  const environment = new library.Environment({
    unlistedVariablesAreDyn: true,
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 500, maxDepth: 32, maxListElements: 200, maxMapEntries: 200, maxCallArguments: 16 },
  })
  const operators: Readonly<Record<string, (left: number, right: number) => number>> = {
    '+': (left, right) => left + right,
    '-': (left, right) => left - right,
    '*': (left, right) => left * right,
    '/': (left, right) => left / right,
    '%': (left, right) => left % right,
  }
  // Numbers of JSON are doubles; people write whole numbers beside them.
  for (const [operator, compute] of Object.entries(operators)) {
    const handler = (left: unknown, right: unknown) => compute(Number(left), Number(right))
    environment.registerOperator(`double ${operator} int: double`, handler)
    environment.registerOperator(`int ${operator} double: double`, handler)
  }
  environment.registerOperator('double % double: double', (left: number, right: number) => left % right)
  environment.registerFunction('string.matchesLinear(string): bool', matchesLinear)
  opened = { library, environment }
  return opened
}

/** The library's own `matches` can be made to hang by a pattern; this one takes time in proportion to the text. */
function matchesLinear(text: string, pattern: string): boolean {
  const compiled = compilePattern(pattern)
  if ('reason' in compiled) throw new Error(`a pattern is refused: ${compiled.reason}`)
  return compiled.test(text)
}

/** Puts the bounded `matches` in place of the library's, and refuses work that grows with a power of the data. */
function refusalOf(node: unknown, depth: number): string | null {
  if (Array.isArray(node)) {
    for (const item of node) {
      const problem = refusalOf(item, depth)
      if (problem !== null) return problem
    }
    return null
  }
  if (typeof node !== 'object' || node === null || !('op' in node)) return null
  const { op, args } = node as CelNode
  if (op !== 'call' && op !== 'rcall') return refusalOf(args, depth)
  const [name] = args as unknown[]
  if (name === 'matches' || name === 'matchesLinear') {
    if (op === 'call') return 'write text.matches(pattern)'
    ;(args as unknown[])[0] = 'matchesLinear'
  }
  const isLoop = op === 'rcall' && comprehensions.has(String(name))
  if (isLoop && depth > 0) return `${String(name)} cannot be used inside another of ${[...comprehensions].join(', ')}`
  const [receiver, ...rest] = (args as unknown[]).slice(1)
  return refusalOf(receiver, depth) ?? refusalOf(rest, isLoop ? depth + 1 : depth)
}
