import { queryTerms } from '../../kernel/query-terms.ts'
import { stem } from '../../kernel/stem.ts'
import { documentWords, foldWord } from '../../kernel/tokenize.ts'

/** What is searched: a name that counts most, then what is said about it. */
export type SearchDocument = Readonly<{
  name: string
  description: string
  labels: Readonly<Record<string, string>>
  /** What there is to go by when nobody wrote a description. */
  hint?: string
}>

const fieldWeights = { name: 1, description: 0.9, hint: 0.8, labels: 0.8, beginning: 0.5 } as const
const BEGINNING_CHARS = 4
const TERMS_MAX = 64

/**
 * How much of the query each document answers, from 0 to 1: the share of its words that occur, rare words counting more.
 * A query that is a document's name gives 1.
 */
export function keywordScores(query: string, documents: readonly SearchDocument[]): number[] {
  const indexed = documents.map(termsOf)
  const wanted = queryTerms(query).slice(0, TERMS_MAX)
  if (wanted.length === 0) return documents.map(() => 0)
  const rarity = wanted.map((term) => {
    const having = indexed.filter(({ weights }) => weights.has(term)).length
    return Math.log(1 + (documents.length - having + 0.5) / (having + 0.5))
  })
  const whole = rarity.reduce((sum, weight) => sum + weight, 0)
  const asName = plainName(query)
  return indexed.map(({ weights, name }) => {
    if (name === asName) return 1
    const found = wanted.reduce((sum, term, index) => sum + rarity[index]! * matchOf(term, weights), 0)
    return Math.min(1, found / whole)
  })
}

export const plainName = (text: string): string => documentWords(text).map(foldWord).join(' ')

function termsOf({ name, description, labels, hint = '' }: SearchDocument) {
  const weights = new Map<string, number>()
  const add = (text: string, weight: number) => {
    for (const word of documentWords(text)) {
      const term = stem(foldWord(word))
      if ((weights.get(term) ?? 0) < weight) weights.set(term, weight)
    }
  }
  add(name, fieldWeights.name)
  add(description, fieldWeights.description)
  add(hint, fieldWeights.hint)
  for (const [key, value] of Object.entries(labels)) add(`${key} ${value}`, fieldWeights.labels)
  return { weights, name: plainName(name) }
}

function matchOf(term: string, weights: ReadonlyMap<string, number>): number {
  const exact = weights.get(term)
  if (exact !== undefined) return exact
  if (term.length < BEGINNING_CHARS) return 0
  for (const other of weights.keys()) {
    const isBeginning = other.startsWith(term) || (other.length >= BEGINNING_CHARS && term.startsWith(other))
    if (isBeginning) return fieldWeights.beginning
  }
  return 0
}
