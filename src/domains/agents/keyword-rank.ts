import { buildKeywordIndex } from '../../kernel/keyword-index.ts'
import { documentWords, foldWord } from '../../kernel/tokenize.ts'

/** What is searched: a name that counts most, then what is said about it. */
export type SearchDocument = Readonly<{
  name: string
  description: string
  labels: Readonly<Record<string, string>>
  /** What there is to go by when nobody wrote a description. */
  hint?: string
}>

/** A word of a name is worth nearly all that it can be, one of a label a little less: the length of a text says nothing here. */
const rules = {
  fields: {
    name: { weight: 10, b: 0 },
    description: { weight: 3, b: 0 },
    hint: { weight: 1.5, b: 0 },
    labels: { weight: 1.5, b: 0 },
  },
  saturation: 0.3,
} as const
const WORDS_MAX = 64

/**
 * How much of the query each document answers, from 0 to 1: the share of its words that occur, rare words counting more.
 * A query that is a document's name gives 1.
 */
export function keywordScores(query: string, documents: readonly SearchDocument[]): number[] {
  const named = documents.map(({ name }) => ({ name, title: null }))
  const index = buildKeywordIndex(named, (at) => wordsOf(documents[at]!), rules)
  const { shareOf } = index.score(
    query.trim().split(/\s+/, WORDS_MAX).join(' '),
    documents.map(() => true),
  )
  const asName = plainName(query)
  return documents.map(({ name }, at) => (plainName(name) === asName ? 1 : shareOf(at)))
}

export const plainName = (text: string): string => documentWords(text).map(foldWord).join(' ')

const wordsOf = ({ name, description, labels, hint = '' }: SearchDocument) => ({
  name: documentWords(name),
  description: documentWords(description),
  hint: documentWords(hint),
  labels: Object.entries(labels).flatMap(([key, value]) => documentWords(`${key} ${value}`)),
})
