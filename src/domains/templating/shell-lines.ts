import type { Expression, Program } from '../templating/template-syntax.ts'
import { parseTemplate } from '../templating/templates.ts'

/** Helpers whose result is one word, a number or a boolean: no part of a value escapes them. */
const harmless = new Set('shell length eq ne gt gte lt lte not add subtract multiply divide modulo'.split(' '))

/**
 * Where a template of a shell line lets a value become more than one word: `raw` inserts it unquoted, `quoted` uses
 * {{shell …}} inside quotes, which cancel its own. `whole` is a value that is the line itself, which no quoting fixes.
 * Quotes are parsed as by a shell, except in here-documents.
 */
export type ShellRisk = Readonly<{ kind: 'raw' | 'quoted' | 'whole'; expression: string }>

export function shellRisksOf(text: string): readonly ShellRisk[] {
  const { problem, program } = parseTemplate(text)
  if (problem !== null) return []
  const risks: ShellRisk[] = []
  walk(program, { quote: '' }, risks)
  const parts = program.body.filter((part) => part.type !== 'ContentStatement' || part.value.trim() !== '')
  const isWhole = parts.length === 1 && parts[0]!.type === 'MustacheStatement'
  return isWhole ? risks.map((risk) => (risk.kind === 'raw' ? { ...risk, kind: 'whole' } : risk)) : risks
}

type ShellState = { quote: '' | '"' | "'" }

function walk(program: Program | undefined, state: ShellState, risks: ShellRisk[]): void {
  for (const statement of program?.body ?? []) {
    if (statement.type === 'ContentStatement') follow(statement.value, state)
    else if (statement.type === 'BlockStatement') {
      walk(statement.program, state, risks)
      walk(statement.inverse, state, risks)
    } else if (statement.type === 'MustacheStatement') {
      const name = nameOf(statement.path)
      const [first] = statement.params
      const isCall = first !== undefined
      if (!isCall || !harmless.has(name)) {
        risks.push({ kind: 'raw', expression: isCall ? `(${name} ${nameOf(first)})` : name })
      } else if (name === 'shell' && state.quote !== '') risks.push({ kind: 'quoted', expression: nameOf(first) })
    }
  }
}

const nameOf = (expression: Expression): string => {
  if (expression.type === 'PathExpression') return expression.original.slice(0, 64)
  return expression.type === 'SubExpression' ? `(${nameOf(expression.path)} …)` : 'value'
}

function follow(text: string, state: ShellState): void {
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (character === '\\' && state.quote !== "'") at++
    else if (state.quote === character) state.quote = ''
    else if (state.quote === '' && (character === '"' || character === "'")) state.quote = character
  }
}
