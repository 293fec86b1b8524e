import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js'
import { limits } from '../../contract/limits.ts'
import { invalid } from './rules.ts'

/**
 * A regular expression of a caller, on a matcher whose time for one match grows only with text times pattern. Counted
 * repetitions are what makes a short pattern large, so its compiled size is bounded as well.
 */
type Pattern = RE2JS

export function compilePattern(pattern: string, field: string): Pattern {
  if (pattern.length > limits.vaultPatternCharsMax) {
    throw invalid(field, `must have at most ${limits.vaultPatternCharsMax} characters as a regular expression`)
  }
  let compiled: RE2JS
  try {
    compiled = RE2JS.compile(pattern)
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    const fault = error instanceof RE2JSSyntaxException ? error.getDescription() : 'it cannot be compiled'
    throw invalid(field, `must be an RE2 regular expression (${fault}), or leave out regex`)
  }
  if (compiled.programSize() > limits.vaultPatternSizeMax) {
    throw invalid(field, 'must be a smaller regular expression: its repetition counts make it too large')
  }
  return compiled
}

type TemplatePart = string | Readonly<{ group: number | string }>

/**
 * What a match is replaced by: `$1` to `$99` and `${name}` are groups, `$0` and `$&` the whole match, `$$` a dollar sign.
 * A group that the pattern does not have is refused; any other `$` stands for itself.
 */
export function parseTemplate(template: string, pattern: Pattern, field: string): readonly TemplatePart[] {
  const parts: TemplatePart[] = []
  let end = 0
  for (const match of template.matchAll(/\$(?:(\$)|(&)|(\d{1,2})|\{(\w+)\})/g)) {
    parts.push(template.slice(end, match.index))
    end = match.index + match[0].length
    const [, dollar, whole, digits, name] = match
    if (dollar !== undefined) parts.push('$')
    else parts.push({ group: whole === undefined ? groupOf(digits ?? name!, pattern, field) : 0 })
  }
  parts.push(template.slice(end))
  return parts.filter((part) => part !== '')
}

function groupOf(text: string, pattern: Pattern, field: string): number | string {
  const isNumber = /^\d+$/.test(text)
  const exists = isNumber ? Number(text) <= pattern.groupCount() : Object.hasOwn(pattern.namedGroups(), text)
  if (!exists) throw invalid(field, 'refers to a group that old_string does not have; write $$ for a dollar sign')
  return isNumber ? Number(text) : text
}

export const expandTemplate = (
  parts: readonly TemplatePart[],
  match: Readonly<{ group(group: number | string): string | null }>,
): string => parts.map((part) => (typeof part === 'string' ? part : (match.group(part.group) ?? ''))).join('')
