import {
  type Block,
  type Call,
  type Expression,
  isSection,
  type Path,
  type Program,
} from '../templating/template-syntax.ts'

/**
 * A name as a text uses it. `parts` is its path from the context, or null if that is unknown without values: inside
 * #each and #with names belong to the item. A `test` may find nothing, and a `sum` counts a missing value as 0.
 */
export type UsedName = Readonly<{ name: string; parts: readonly string[] | null; use: NameUse }>
export type NameUse = 'text' | 'test' | 'sum'

const tests = new Set('default and or not'.split(' '))
const sums = new Set('add subtract multiply divide modulo'.split(' '))

export const useOfArguments = (helper: string): NameUse =>
  tests.has(helper) ? 'test' : sums.has(helper) ? 'sum' : 'text'

/** Every name of a text, in order. */
export function namesIn(program: Program | undefined): readonly UsedName[] {
  const found: UsedName[] = []
  walk(program, { level: 0, own: new Set() }, found)
  return found
}

/** The names of a condition, as after `#if`. */
export function namesInArguments(params: readonly Expression[]): readonly UsedName[] {
  const found: UsedName[] = []
  walkArguments(params, { level: 0, own: new Set() }, 'text', found)
  return found
}

function walkArguments(params: readonly Expression[], scope: Scope, use: NameUse, found: UsedName[]): void {
  const [first, ...rest] = params
  if (first === undefined) return
  if (rest.length > 0) walkCall({ path: first, params: rest }, scope, use, found)
  else walkValue(first, scope, use, found)
}

/** The loop depth of a text, and the names that the loops give to their items. */
type Scope = Readonly<{ level: number; own: ReadonlySet<string> }>

function walk(program: Program | undefined, scope: Scope, found: UsedName[]): void {
  for (const statement of program?.body ?? []) {
    if (statement.type === 'MustacheStatement') walkCall(statement, scope, 'text', found)
    else if (statement.type === 'BlockStatement') walkBlock(statement, scope, found)
  }
}

function walkBlock(block: Block, scope: Scope, found: UsedName[]): void {
  const isOwn = isSection(block)
  const name = block.path.type === 'PathExpression' ? block.path.original : ''
  if (isOwn) walkValue(block.path, scope, 'test', found)
  else walkArguments(block.params, scope, 'test', found)
  const opens = isOwn || name === 'each' || name === 'with'
  const own = new Set([...scope.own, ...(block.program?.blockParams ?? [])])
  walk(block.program, opens ? { level: scope.level + 1, own } : scope, found)
  walk(block.inverse, scope, found)
}

function walkCall({ path, params }: Call, scope: Scope, use: NameUse, found: UsedName[]): void {
  if (params.length === 0) {
    walkValue(path, scope, use, found)
    return
  }
  const own = useOfArguments(path.type === 'PathExpression' ? path.original : '')
  for (const param of params) walkValue(param, scope, use === 'test' ? use : own, found)
}

function walkValue(value: Expression, scope: Scope, use: NameUse, found: UsedName[]): void {
  if (value.type === 'SubExpression') walkCall(value, scope, use, found)
  else if (value.type === 'PathExpression') found.push(usedName(value, scope.level, scope.own, use))
}

type Names = Readonly<{ has(name: string): boolean }>

export function usedName({ data, depth, parts, original }: Path, level: number, own: Names, use: NameUse): UsedName {
  const [first] = parts
  const isOwn = !data && first !== undefined && depth === 0 && own.has(first)
  const isOfRoot = data ? first === 'root' : depth === level && !isOwn
  const known = data ? parts.slice(1) : parts
  return { name: original.slice(0, 128), parts: isOfRoot ? known : null, use }
}
