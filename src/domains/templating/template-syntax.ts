import { createRequire } from 'node:module'
import { separateBraces, showBraces } from '../templating/template-braces.ts'
import { templateHelpers } from '../templating/template-values.ts'

export type Path = Readonly<{
  type: 'PathExpression'
  data: boolean
  depth: number
  parts: readonly string[]
  original: string
}>
export type Call = Readonly<{ path: Expression; params: readonly Expression[]; hash?: unknown }>
export type Expression =
  | Path
  | Readonly<{ type: 'StringLiteral' | 'NumberLiteral' | 'BooleanLiteral'; value: string | number | boolean }>
  | Readonly<{ type: 'UndefinedLiteral' | 'NullLiteral' }>
  | (Call & Readonly<{ type: 'SubExpression' }>)
export type Program = Readonly<{ body: readonly Statement[]; blockParams?: readonly string[] }>
export type Block = Call & Readonly<{ type: 'BlockStatement'; program?: Program; inverse?: Program }>
type Statement =
  | Readonly<{ type: 'ContentStatement'; value: string }>
  | Readonly<{ type: 'CommentStatement' }>
  | (Call & Readonly<{ type: 'MustacheStatement' }>)
  | Block
  | Readonly<{ type: 'PartialStatement' | 'PartialBlockStatement' | 'Decorator' | 'DecoratorBlock' }>

const blocks = ['if', 'unless', 'each', 'with']
let parse: ((text: string) => Program) | undefined

/** The library is loaded when the first text needs it. */
export function parseText(text: string): Program {
  parse ??= (createRequire(import.meta.url)('handlebars') as typeof import('handlebars')).parse as unknown as (
    text: string,
  ) => Program
  return parse(separateBraces(text))
}

/** The library's message shows the position; what it expected there does not help. */
export function parseProblem(error: unknown): string {
  const lines = String((error as Error).message ?? error).split('\n')
  const excerpt = showBraces(lines.slice(0, 2).join(' ')).slice(0, 200)
  return `${excerpt}; inside {{ }} use paths and helpers, and write comparisons as (gt a b), (eq a b) and so on`
}

export function problemOfProgram(program: Program | undefined): string | null {
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
    case 'BlockStatement':
      return problemOfBlock(statement) ?? problemOfProgram(statement.program) ?? problemOfProgram(statement.inverse)
    default:
      return 'partials ({{> name}}) and decorators ({{* name}}) are not supported; write the text in full'
  }
}

/** `{{#name}}` alone is a section: a loop over a list, else a condition. */
export const isSection = ({ path, params }: Block): boolean =>
  params.length === 0 && !(path.type === 'PathExpression' && blocks.includes(path.original))

function problemOfBlock(block: Block): string | null {
  if (isSection(block)) return null
  const name = block.path.type === 'PathExpression' ? block.path.original : ''
  if (!blocks.includes(name)) return `there is no block #${name.slice(0, 40)}; use ${blocks.join(', ')}`
  if (block.params.length === 0) return `#${name} needs a value`
  return problemOfArguments(block.params)
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
