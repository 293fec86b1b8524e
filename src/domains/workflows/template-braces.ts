/**
 * JSON around a template makes runs of braces (`{"a":{{{json b}}}}`) that Handlebars reads as something else. Here the text
 * is cut at the first brace that can end an expression, three braces become two (they mean the same), and braces of the text
 * itself are stood in for until it is parsed.
 */
const OPEN = '\ufdd0'
const CLOSE = '\ufdd1'

export const standsInFor = /[\ufdd0\ufdd1]/

export function separateBraces(text: string): string {
  let out = ''
  let at = 0
  while (at < text.length) {
    const start = expressionStart(text, at)
    out += hideBraces(text.slice(at, start))
    if (start >= text.length) break
    const width = text.startsWith('{{{', start) ? 3 : 2
    const end = expressionEnd(text, start + width, width)
    if (end === undefined) return out + text.slice(start)
    out += `{{${text.slice(start + width, end)}}}`
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
