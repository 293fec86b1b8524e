import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js'
import { AppError } from '../../../contract/app-error.ts'

/**
 * Regular expressions from callers run on a matcher whose time grows only with text length times pattern size. Counted
 * repetitions are what makes a short pattern large, so the compiled size is bounded, and so is the text that is looked at.
 */
const programSizeMax = 500
const textCharactersMax = 4_000
const ranks = [4, 3, 2, 1] as const

/**
 * Items of which any text matches, those with the name first, then title, then description; ties by name.
 * `textsOf` gives name, another spelling of it, title and description in this order.
 */
export function matchByRegex<T>(
  pattern: string,
  items: readonly T[],
  textsOf: (
    item: T,
  ) => readonly [name: string, safeName: string | null, title: string | null, description: string | null],
): T[] {
  const expression = compile(pattern)
  const matched: { item: T; rank: number; name: string }[] = []
  for (const item of items) {
    const texts = textsOf(item)
    const at = texts.findIndex((text) => text !== null && expression.test(text.slice(0, textCharactersMax)))
    if (at >= 0) matched.push({ item, rank: ranks[at]!, name: texts[0] })
  }
  matched.sort((a, b) => b.rank - a.rank || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  return matched.map(({ item }) => item)
}

function compile(pattern: string): RE2JS {
  let expression: RE2JS
  try {
    expression = RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE)
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    const fault = error instanceof RE2JSSyntaxException ? error.getDescription() : 'it cannot be compiled'
    throw refusal(`must be an RE2 regular expression (${fault}; no look-around, no back-references)`, error)
  }
  if (expression.programSize() > programSizeMax)
    throw refusal('must be a smaller regular expression: its repetition counts make it too large')
  return expression
}

const refusal = (rule: string, cause?: unknown): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `query: ${rule}. Correct the pattern, or use mode "keyword".`,
    { field: 'query', rule },
    { cause },
  )
