import { limits } from '../../contract/limits.ts'
import { withoutOperators } from '../templating/template-operators.ts'

/**
 * JSON around a template produces runs of braces (`{"a":{{{json b}}}}`) that Handlebars parses differently. Here the
 * text is cut at the first brace that can end an expression, three braces become two (they mean the same), and braces
 * of the text itself are replaced by placeholders until it is parsed.
 */
const OPEN = '\ufdd0'
const CLOSE = '\ufdd1'

export const standsInFor = /[\ufdd0\ufdd1]/

/** Throws for a text that the library would take long to parse: one that is deeply nested. */
export function separateBraces(text: string): string {
  const nesting = createNesting()
  let out = ''
  let at = 0
  while (at < text.length) {
    const start = expressionStart(text, at)
    out += hideBraces(text.slice(at, start))
    if (start >= text.length) break
    const width = text.startsWith('{{{', start) ? 3 : 2
    const end = expressionEnd(text, start + width, width)
    if (end === undefined) throw new Error(`the expression at character ${start + 1} is not closed by }}`)
    const expression = withoutOperators(text.slice(start + width, end))
    nesting.enter(expression)
    out += `{{${expression}}}`
    at = end + width
  }
  return out
}

/** Of more than three braces the last three count. */
function expressionStart(text: string, from: number): number {
  let start = text.indexOf('{{', from)
  if (start < 0) return text.length
  while (text.startsWith('{{{{', start)) start++
  return start
}

function expressionEnd(text: string, from: number, width: number): number | undefined {
  if (text.startsWith('!--', from)) {
    const end = text.indexOf('--}}', from)
    return end < 0 ? undefined : end + 2
  }
  const closing = '}'.repeat(width)
  let quote = ''
  for (let at = from; at < text.length; at++) {
    const character = text[at]!
    if (quote !== '') {
      if (character === '\\') at++
      else if (character === quote) quote = ''
    } else if (character === '"' || character === "'") quote = character
    else if (text.startsWith(closing, at)) return at
  }
  return undefined
}

const hideBraces = (text: string): string => text.replaceAll('{', OPEN).replaceAll('}', CLOSE)
export const showBraces = (text: string): string => text.replaceAll(OPEN, '{').replaceAll(CLOSE, '}')

type Nesting = Readonly<{ enter(expression: string): void }>

function createNesting(): Nesting {
  let count = 0
  /** For each open block, the number of its levels: each `else if` adds one. */
  const open: number[] = []
  const problem = (rule: string): Error => new Error(`a template may have ${rule}`)
  return {
    enter(expression) {
      count++
      if (count > limits.templateExpressionsMax) throw problem(`${limits.templateExpressionsMax} expressions`)
      const word = expression.replace(/^~?\s*/, '')
      if (word.startsWith('!')) return
      if (expression.length > limits.expressionCharsMax) {
        throw problem(`${limits.expressionCharsMax} characters in one expression`)
      }
      if (/^[#^]./s.test(word)) open.push(1)
      else if (word.startsWith('/')) open.pop()
      else if (/^else\s+\S/.test(word) && open.length > 0) open[open.length - 1]! += 1
      const levels = open.reduce((sum, one) => sum + one, 0)
      if (Math.max(levels, parentheses(word)) > limits.templateNestingMax) {
        throw problem(`blocks and calls nested up to ${limits.templateNestingMax} deep`)
      }
    },
  }
}

/** The nesting depth, or more if some braces are inside a string. */
function parentheses(expression: string): number {
  let [depth, deepest] = [0, 0]
  for (const character of expression) {
    if (character === '(') deepest = Math.max(deepest, ++depth)
    else if (character === ')') depth--
  }
  return deepest
}
