import { createRequire } from 'node:module'
import type { RE2JS } from 're2js'

/** A regular expression whose matching time grows only with the length of the text times the size of the pattern. */
export type LinearPattern = RE2JS

type PatternOptions = Readonly<{
  /** Counted repetitions make a short pattern large, so its compiled size is bounded. */
  programSizeMax: number
  /** The error for a pattern that breaks this rule. */
  refuse(rule: string, cause?: unknown): Error
  ignoreCase?: boolean
  /** Whether `.` also matches a line break. */
  dotAll?: boolean
}>

type Library = typeof import('re2js')
let library: Library | undefined

/** Loaded with the first pattern: most servers never see one, and the Unicode tables are large. */
const loaded = (): Library => {
  library ??= createRequire(import.meta.url)('re2js') as Library
  return library
}

/** Compiles a caller's pattern, in RE2 syntax: no look-around and no back-references. */
export function compileLinearPattern(source: string, options: PatternOptions): LinearPattern {
  const { RE2JS, RE2JSException, RE2JSSyntaxException } = loaded()
  const flags = (options.ignoreCase ? RE2JS.CASE_INSENSITIVE : 0) | (options.dotAll ? RE2JS.DOTALL : 0)
  let compiled: LinearPattern
  try {
    compiled = RE2JS.compile(source, flags)
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    const fault = error instanceof RE2JSSyntaxException ? error.getDescription() : 'it cannot be compiled'
    throw options.refuse(`must be an RE2 regular expression (${fault}; no look-around, no back-references)`, error)
  }
  if (compiled.programSize() > options.programSizeMax)
    throw options.refuse('must be a smaller regular expression: its repetition counts make it too large')
  return compiled
}

/** A pattern that matches exactly this text. */
export const quotePattern = (text: string): string => loaded().RE2JS.quote(text)
