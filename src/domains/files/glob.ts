import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { compileLinearPattern, quotePattern } from '../../kernel/linear-pattern.ts'

type Glob = Readonly<{ matches(path: string): boolean }>

const PROGRAM_SIZE_MAX = 5_000
const BRACES_DEPTH_MAX = 4

/**
 * A pattern of paths: `*` and `?` stay inside a name, `**` as a whole name is any number of folders, `[a-z]` and
 * `[!a-z]` are one character, `{a,b}` is either, `\` escapes the next character. It becomes a regular expression for a
 * matcher whose time grows only with the length of the path.
 */
export function compileGlob(pattern: string): Glob {
  const trimmed = pattern.replace(/^(\.?\/)+/, '')
  const source = new Translator(trimmed).translate()
  const compiled = compileLinearPattern(`^(?:${source})$`, {
    programSizeMax: PROGRAM_SIZE_MAX,
    dotAll: true,
    // What remains to refuse after the translation is a reversed range, or the size.
    refuse: (_rule, cause) =>
      invalid(
        cause === undefined ? 'is too large; use fewer alternatives' : 'has a range inside of [ ] that runs backwards',
      ),
  })
  return { matches: (path) => compiled.matches(path) }
}

const invalid = (rule: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `'pattern' ${rule}.`, { field: 'pattern', constraint: 'a glob pattern' })

class Translator {
  readonly #pattern: string
  #at = 0

  constructor(pattern: string) {
    if (pattern === '') throw invalid('is empty; give a pattern such as **/*.ts')
    if (pattern.length > limits.agentPatternCharsMax) throw invalid('is too long')
    this.#pattern = pattern
  }

  translate(): string {
    return this.#sequence(0)
  }

  #sequence(depth: number): string {
    let source = ''
    while (this.#at < this.#pattern.length) {
      const char = this.#pattern[this.#at]!
      if (depth > 0 && (char === ',' || char === '}')) return source
      source += this.#piece(char, depth)
    }
    if (depth > 0) throw invalid('has a { without its }')
    return source
  }

  #piece(char: string, depth: number): string {
    if (char === '*') return this.#stars()
    this.#at++
    if (char === '?') return '[^/]'
    if (char === '[') return this.#charset()
    if (char === '{') return this.#alternatives(depth + 1)
    if (char === '\\') return quotePattern(this.#next('ends with \\'))
    return quotePattern(char)
  }

  /** `**` counts only as a whole name; elsewhere it is a star. */
  #stars(): string {
    const start = this.#at
    while (this.#pattern[this.#at] === '*') this.#at++
    const beginsName = start === 0 || '/{,'.includes(this.#pattern[start - 1]!)
    const after = this.#pattern[this.#at]
    if (this.#at - start !== 2 || !beginsName) return '[^/]*'
    if (after === '/') {
      this.#at++
      return '(?:[^/]+/)*'
    }
    return after === undefined || after === ',' || after === '}' ? '.*' : '[^/]*'
  }

  #alternatives(depth: number): string {
    if (depth > BRACES_DEPTH_MAX) throw invalid(`has braces more than ${BRACES_DEPTH_MAX} deep`)
    const choices = [this.#sequence(depth)]
    while (this.#next('has a { without its }') === ',') choices.push(this.#sequence(depth))
    return `(?:${choices.join('|')})`
  }

  #charset(): string {
    const isNegated = '!^'.includes(this.#pattern[this.#at] ?? ' ')
    if (isNegated) this.#at++
    let members = ''
    for (let first = true; ; first = false) {
      const char = this.#next('has a [ without its ]')
      if (char === ']' && !first) break
      if (char === '/') throw invalid('has a / inside of [ ]')
      const literal = char === '\\' ? this.#next('ends with \\') : char
      members += literal === '-' && char !== '\\' ? '-' : escapeMember(literal)
    }
    return isNegated ? `[^/${members}]` : `[${members}]`
  }

  #next(problem: string): string {
    const char = this.#pattern[this.#at++]
    if (char === undefined) throw invalid(problem)
    return char
  }
}

const escapeMember = (char: string): string => (/[\w\s]/.test(char) ? char : char.replace(/[\]\\^[&~|-]/, '\\$&'))
