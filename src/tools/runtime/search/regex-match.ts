import { AppError } from '../../../contract/app-error.ts'
import { compileLinearPattern } from '../../../kernel/linear-pattern.ts'

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
  const expression = compileLinearPattern(pattern, { programSizeMax, ignoreCase: true, refuse: refusal })
  const matched: { item: T; rank: number; name: string }[] = []
  for (const item of items) {
    const texts = textsOf(item)
    const at = texts.findIndex((text) => text !== null && expression.test(text.slice(0, textCharactersMax)))
    if (at >= 0) matched.push({ item, rank: ranks[at]!, name: texts[0] })
  }
  matched.sort((a, b) => b.rank - a.rank || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  return matched.map(({ item }) => item)
}

const refusal = (rule: string, cause?: unknown): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `query: ${rule}. Correct the pattern, or use mode "keyword".`,
    { field: 'query', rule },
    { cause },
  )
