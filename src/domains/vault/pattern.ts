import { limits } from '../../contract/limits.ts'
import { compileLinearPattern, type LinearPattern } from '../../kernel/linear-pattern.ts'
import { invalid } from './rules.ts'

export function compilePattern(pattern: string, field: string): LinearPattern {
  if (pattern.length > limits.vaultPatternCharsMax) {
    throw invalid(field, `must have at most ${limits.vaultPatternCharsMax} characters as a regular expression`)
  }
  return compileLinearPattern(pattern, {
    programSizeMax: limits.vaultPatternSizeMax,
    refuse: (rule) => invalid(field, `${rule}, or leave out regex`),
  })
}

type TemplatePart = string | Readonly<{ group: number | string }>

/**
 * The replacement of a match: `$1` to `$99` and `${name}` are groups, `$0` and `$&` the whole match, `$$` a dollar
 * sign. A group that the pattern lacks is refused; any other `$` stands for itself.
 */
export function parseTemplate(template: string, pattern: LinearPattern, field: string): readonly TemplatePart[] {
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

function groupOf(text: string, pattern: LinearPattern, field: string): number | string {
  const isNumber = /^\d+$/.test(text)
  const exists = isNumber ? Number(text) <= pattern.groupCount() : Object.hasOwn(pattern.namedGroups(), text)
  if (!exists) throw invalid(field, 'refers to a group that old_string does not have; write $$ for a dollar sign')
  return isNumber ? Number(text) : text
}

export const expandTemplate = (
  parts: readonly TemplatePart[],
  match: Readonly<{ group(group: number | string): string | null }>,
): string => parts.map((part) => (typeof part === 'string' ? part : (match.group(part.group) ?? ''))).join('')
