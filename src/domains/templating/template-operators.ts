import { limits } from '../../contract/limits.ts'

/**
 * `{{x + 1}}`: the library's grammar has no operators, so a chain of them is rewritten as helper calls before it is
 * parsed. An operator is surrounded by spaces; its operands are paths, numbers, and calls in parentheses.
 */
const operators: ReadonlyMap<string, Readonly<{ helper: string; binds: 1 | 2 }>> = new Map([
  ['+', { helper: 'add', binds: 1 }],
  ['-', { helper: 'subtract', binds: 1 }],
  ['*', { helper: 'multiply', binds: 2 }],
  ['/', { helper: 'divide', binds: 2 }],
  ['%', { helper: 'modulo', binds: 2 }],
])

const TOKEN = /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[()]|[^\s()"']+/g

export const hasOperators = (expression: string): boolean => tokensOf(expression).some((token) => operators.has(token))

/** Throws for a chain that does not alternate between values and operators. */
export function withoutOperators(expression: string): string {
  if (/^~?\s*!/.test(expression) || expression.length > limits.expressionCharsMax) return expression
  const tokens = tokensOf(expression)
  if (!tokens.some((token) => operators.has(token))) return expression
  const start = tokens[0] === 'else' ? 2 : /^~?[#^]/.test(tokens[0]!) ? 1 : 0
  const head = tokens.slice(0, start)
  const { items } = readLevel(tokens, start)
  const value = joined(items)
  return [...head, head.length === 0 ? value.replace(/^\((.*)\)$/s, '$1') : value].join(' ')
}

const tokensOf = (expression: string): readonly string[] =>
  /[-+*/%]/.test(expression) ? (expression.match(TOKEN) ?? []) : []

type Level = Readonly<{ items: readonly string[]; next: number }>

function readLevel(tokens: readonly string[], from: number): Level {
  const items: string[] = []
  let at = from
  for (; at < tokens.length && tokens[at] !== ')'; at++) {
    if (tokens[at] !== '(') {
      items.push(tokens[at]!)
      continue
    }
    const inner = readLevel(tokens, at + 1)
    const value = joined(inner.items)
    items.push(inner.items.some((item) => operators.has(item)) ? value : `(${value})`)
    at = inner.next
  }
  return { items, next: at }
}

/** A level with operators becomes one call in parentheses; other levels stay unchanged. */
function joined(items: readonly string[]): string {
  if (!items.some((item) => operators.has(item))) return items.join(' ')
  const values = items.filter((_, index) => index % 2 === 0)
  const signs = items.filter((_, index) => index % 2 === 1)
  const isChain = items.length % 2 === 1 && signs.every((sign) => operators.has(sign))
  if (!isChain || values.some((value) => operators.has(value))) {
    throw new Error(
      'values and the operators + - * / % must alternate; put a call into parentheses, as in (default x 0) + 1',
    )
  }
  return chained(chained([...items], 2), 1)[0]!
}

function chained(items: string[], binds: 1 | 2): string[] {
  const left: string[] = [items[0]!]
  for (let at = 1; at < items.length; at += 2) {
    const operator = operators.get(items[at]!)!
    if (operator.binds === binds) left.push(`(${operator.helper} ${left.pop()!} ${items[at + 1]!})`)
    else left.push(items[at]!, items[at + 1]!)
  }
  return left
}
