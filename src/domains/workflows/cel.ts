import { createRequire } from 'node:module'
import type { NameUse, UsedName } from '../templating/template-names.ts'
import type { Context } from '../templating/templates.ts'
import { type Meter, TooMuchWork } from '../templating/work-meter.ts'
import { chargeCall, chargeOperator, createPatterns, type Patterns } from './cel-costs.ts'

/**
 * CEL with metered evaluation. The library parses, and applies each single operation to existing values. This code decides what
 * is evaluated and how often, and charges every operation by the size of its operands in advance.
 */
type CelNode = Readonly<{ op: string; args: unknown }>
type Library = typeof import('@marcbachmann/cel-js')
type Operation = (values: Readonly<Record<string, unknown>>) => unknown
type Scope = Readonly<{ name: string; value: unknown; outer: Scope }> | undefined
type Evaluation = Readonly<{ context: Context; meter: Meter; patterns: Patterns }>
type Visit = (node: CelNode, scope: Scope, evaluation: Evaluation) => unknown

/** An error that another part of the expression absorbs is expensive too. */
const ERROR_UNITS = 2_000

const loops = new Set(['all', 'exists', 'exists_one', 'map', 'filter'])

/** Throws the library's error for text that is not CEL or that calls an unknown function. */
export function parseCel(text: string): CelNode {
  const { environment, functions } = openCel()
  const node = environment.parse(text).ast as CelNode
  requireFunctions(node, functions)
  return node
}

/** May throw TooMuchWork. Any other error means that the expression has no value. */
export function evaluateCel(node: CelNode, context: Context, meter: Meter): unknown {
  return evaluate(node, undefined, { context, meter, patterns: createPatterns(meter) })
}

function evaluate(node: CelNode, scope: Scope, evaluation: Evaluation): unknown {
  evaluation.meter.step()
  const visit = Object.hasOwn(visits, node.op) ? visits[node.op]! : operator
  return visit(node, scope, evaluation)
}

const visits: Readonly<Record<string, Visit>> = {
  value: ({ args }) => args,
  id: ({ args }, scope, { context }) => named(args as string, scope, context),
  '.'({ args }, scope, evaluation) {
    const [of, name] = args as [CelNode, string]
    const value = memberOf(evaluate(of, scope, evaluation), name)
    if (value === undefined) throw new MissingName(pathOf({ op: '.', args })?.join('.') ?? name)
    return value
  },
  list: ({ args }, scope, evaluation) => (args as CelNode[]).map((item) => evaluate(item, scope, evaluation)),
  map({ args }, scope, evaluation) {
    const made: Record<string, unknown> = Object.create(null)
    for (const [key, item] of args as [CelNode, CelNode][]) {
      const name = String(evaluate(key, scope, evaluation))
      evaluation.meter.charge(name.length)
      made[name] = evaluate(item, scope, evaluation)
    }
    return made
  },
  '?:'({ args }, scope, evaluation) {
    const [condition, yes, no] = args as [CelNode, CelNode, CelNode]
    return evaluate(asBoolean(evaluate(condition, scope, evaluation), '?:') ? yes : no, scope, evaluation)
  },
  '||': (node, scope, evaluation) => logical(node, scope, evaluation, true),
  '&&': (node, scope, evaluation) => logical(node, scope, evaluation, false),
  '!_': ({ args }, scope, evaluation) => operation('!a')({ a: evaluate(args as CelNode, scope, evaluation) }),
  '-_': ({ args }, scope, evaluation) => operation('-a')({ a: evaluate(args as CelNode, scope, evaluation) }),
  '[]'({ args }, scope, evaluation) {
    const [of, key] = (args as CelNode[]).map((item) => evaluate(item, scope, evaluation))
    return operation('a[b]')({ a: of, b: key })
  },
  call({ args }, scope, evaluation) {
    const [name, params] = args as [string, CelNode[]]
    if (name === 'has') return has(params[0]!, scope, evaluation)
    return call(name, undefined, params, scope, evaluation)
  },
  rcall({ args }, scope, evaluation) {
    const [name, receiver, params] = args as [string, CelNode, CelNode[]]
    if (name === 'bind' && receiver.op === 'id' && receiver.args === 'cel') {
      const value = evaluate(params[1]!, scope, evaluation)
      return evaluate(params[2]!, { name: params[0]!.args as string, value, outer: scope }, evaluation)
    }
    if (loops.has(name)) return loop(name, evaluate(receiver, scope, evaluation), params, scope, evaluation)
    return call(name, receiver, params, scope, evaluation)
  },
}

function operator({ op, args }: CelNode, scope: Scope, evaluation: Evaluation): unknown {
  const [a, b] = (args as CelNode[]).map((item) => evaluate(item, scope, evaluation))
  chargeOperator(evaluation.meter, op, a, b)
  return operation(`a ${op} b`)({ a, b })
}

function named(name: string, scope: Scope, context: Context): unknown {
  for (let at = scope; at !== undefined; at = at.outer) if (at.name === name) return at.value
  const value = Object.hasOwn(context, name) ? context[name] : undefined
  if (value !== undefined) return value
  // Only the names of types are left.
  if (openCel().constants.has(name)) return operation(name)({})
  throw new MissingName(name)
}

export class MissingName extends Error {
  readonly path: string
  constructor(path: string) {
    super(`there is no ${path.slice(0, 128)}`)
    this.path = path
  }
}

/** The names of a member path, if the node consists of names only. */
function pathOf({ op, args }: CelNode): readonly string[] | undefined {
  if (op === 'id') return [args as string]
  if (op !== '.') return undefined
  const [of, name] = args as [CelNode, string]
  const before = pathOf(of)
  return before && [...before, name]
}

/** The names that an expression uses, without those that it binds itself. */
export function namesInCel(node: CelNode): readonly UsedName[] {
  const found: UsedName[] = []
  collectNames(node, { own: new Set(), use: 'text' }, found)
  return found
}

type NameContext = Readonly<{ own: ReadonlySet<string>; use: NameUse }>

function collectNames(node: unknown, context: NameContext, found: UsedName[]): void {
  if (Array.isArray(node)) {
    for (const item of node) collectNames(item, context, found)
    return
  }
  if (typeof node !== 'object' || node === null || !('op' in node)) return
  const { op, args } = node as CelNode
  const parts = pathOf(node as CelNode)
  if (parts !== undefined) {
    const isOwn = context.own.has(parts[0]!) || (parts.length === 1 && openCel().constants.has(parts[0]!))
    if (!isOwn) found.push({ name: parts.join('.'), parts, use: context.use })
    return
  }
  if (op === 'call' && (args as [string])[0] === 'has') collectNames(args, { ...context, use: 'test' }, found)
  else if (op === 'rcall') collectCall(args as [string, CelNode, CelNode[]], context, found)
  else if (op !== 'value') collectNames(args, context, found)
}

function collectCall(
  [name, receiver, params]: [string, CelNode, CelNode[]],
  context: NameContext,
  found: UsedName[],
): void {
  const isBind = name === 'bind' && receiver.op === 'id' && receiver.args === 'cel'
  if (!isBind) collectNames(receiver, context, found)
  if (!isBind && !loops.has(name)) {
    collectNames(params, context, found)
    return
  }
  const own = new Set([...context.own, String(params[0]?.args)])
  if (isBind) collectNames(params[1], context, found)
  collectNames(params.slice(isBind ? 2 : 1), { ...context, own }, found)
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}

function has({ op, args }: CelNode, scope: Scope, evaluation: Evaluation): boolean {
  if (op !== '.') throw new Error('has() takes a path, such as has(input.name)')
  const [of, name] = args as [CelNode, string]
  return memberOf(evaluate(of, scope, evaluation), name) !== undefined
}

/** One decisive side is enough, even if the other has no value. */
function logical({ op, args }: CelNode, scope: Scope, evaluation: Evaluation, decisive: boolean): boolean {
  const [left, right] = args as [CelNode, CelNode]
  const first = attempt(left, scope, evaluation)
  if (first === decisive) return decisive
  const second = asBoolean(evaluate(right, scope, evaluation), op)
  if (second === decisive) return decisive
  if (first instanceof Error) throw first
  asBoolean(first, op)
  return second
}

function attempt(node: CelNode, scope: Scope, evaluation: Evaluation): unknown {
  try {
    return evaluate(node, scope, evaluation)
  } catch (error) {
    if (error instanceof TooMuchWork || !(error instanceof Error)) throw error
    evaluation.meter.charge(ERROR_UNITS)
    return error
  }
}

function asBoolean(value: unknown, where: string): boolean {
  if (typeof value === 'boolean') return value
  throw new Error(`${where} takes true or false`)
}

function loop(name: string, over: unknown, params: readonly CelNode[], scope: Scope, evaluation: Evaluation): unknown {
  const items = itemsOf(over, name)
  const inner = (value: unknown): Scope => ({ name: params[0]!.args as string, value, outer: scope })
  const test = (item: unknown): boolean => asBoolean(evaluate(params[1]!, inner(item), evaluation), name)
  evaluation.meter.charge(items.length)
  switch (name) {
    case 'map': {
      const chosen = params.length === 3 ? items.filter(test) : items
      return chosen.map((item) => evaluate(params.at(-1)!, inner(item), evaluation))
    }
    case 'filter':
      return items.filter(test)
    case 'exists_one':
      return items.filter(test).length === 1
    default:
      return quantified(name === 'exists', items, (item) => attempt(params[1]!, inner(item), evaluation))
  }
}

/** One decisive item is enough. Otherwise an item without a value leaves the whole without one. */
function quantified(decisive: boolean, items: readonly unknown[], test: (item: unknown) => unknown): boolean {
  let failure: Error | undefined
  for (const item of items) {
    const found = test(item)
    if (found === decisive) return decisive
    if (found instanceof Error) failure ??= found
    else asBoolean(found, decisive ? 'exists' : 'all')
  }
  if (failure !== undefined) throw failure
  return !decisive
}

function itemsOf(value: unknown, name: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  if (typeof value === 'object' && value !== null) return Object.keys(value)
  throw new Error(`${name} iterates over a list or the keys of a map`)
}

function call(
  name: string,
  receiver: CelNode | undefined,
  params: readonly CelNode[],
  scope: Scope,
  evaluation: Evaluation,
): unknown {
  const values = (receiver === undefined ? params : [receiver, ...params]).map((item) =>
    evaluate(item, scope, evaluation),
  )
  if (name === 'matches') return evaluation.patterns.matches(values[0], values[1])
  chargeCall(evaluation.meter, name, values)
  const letters = [...'abcdefghijklmnopqrst'].slice(0, values.length)
  const [first, ...rest] = letters
  const text = receiver === undefined ? `${name}(${letters.join(',')})` : `${first}.${name}(${rest.join(',')})`
  return operation(text)(Object.fromEntries(letters.map((letter, index) => [letter, values[index]])))
}

type Opened = Readonly<{
  environment: InstanceType<Library['Environment']>
  functions: ReadonlySet<string>
  constants: ReadonlySet<string>
}>
let opened: Opened | undefined
const operations = new Map<string, Operation>()

/** Compiles one operation over variables. The number of operations is bounded by that of operators and functions. */
function operation(text: string): Operation {
  let found = operations.get(text)
  if (found === undefined) {
    found = openCel().environment.parse(text) as Operation
    operations.set(text, found)
  }
  return found
}

function openCel(): Opened {
  if (opened !== undefined) return opened
  const library = createRequire(import.meta.url)('@marcbachmann/cel-js') as Library
  const environment = new library.Environment({
    unlistedVariablesAreDyn: true,
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 500, maxDepth: 32, maxListElements: 200, maxMapEntries: 200, maxCallArguments: 16 },
  })
  const mixed: Readonly<Record<string, (left: number, right: number) => number>> = {
    '+': (left, right) => left + right,
    '-': (left, right) => left - right,
    '*': (left, right) => left * right,
    '/': (left, right) => left / right,
    '%': (left, right) => left % right,
  }
  // JSON numbers are doubles, but people write integer literals beside them.
  for (const [sign, compute] of Object.entries(mixed)) {
    const handler = (left: unknown, right: unknown) => compute(Number(left), Number(right))
    environment.registerOperator(`double ${sign} int: double`, handler)
    environment.registerOperator(`int ${sign} double: double`, handler)
  }
  environment.registerOperator('double % double: double', (left: number, right: number) => left % right)
  const { functions, variables } = environment.getDefinitions()
  opened = {
    environment,
    functions: new Set(functions.map(({ name }) => name)),
    constants: new Set(variables.map(({ name }) => name)),
  }
  return opened
}

function requireFunctions(node: unknown, functions: ReadonlySet<string>): void {
  if (Array.isArray(node)) {
    for (const item of node) requireFunctions(item, functions)
    return
  }
  if (typeof node !== 'object' || node === null || !('op' in node)) return
  const { op, args } = node as CelNode
  if (op === 'call' || op === 'rcall') {
    const [name] = args as [string]
    if (!functions.has(name)) throw new Error(`there is no function ${name.slice(0, 40)}`)
    if (op === 'call' && name === 'matches') throw new Error('write text.matches(pattern)')
  }
  requireFunctions(args, functions)
}
