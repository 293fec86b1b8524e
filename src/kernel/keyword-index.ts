import { createQueryLanguage, planQuery, type QueryLanguage, type QueryPlan } from './query-plan.ts'
import { stem } from './stem.ts'
import { stopWords } from './stop-words.ts'
import { splitPieces } from './tokenize.ts'

/**
 * The one ranker by words, for tools, agents and workflows. Built once from all documents; a search touches only the postings of the
 * query's words.
 *
 * 1. Word rarity is counted over the whole index; readings of misspelt words come from the visible documents.
 * 2. A query that is the name or the title of a document, or a stretch of it, puts that document first.
 */
type KeywordIndex = Readonly<{ score(query: string, visible: readonly boolean[]): WordScores }>

/** The weight of an occurrence in a field, and the penalty of a long field. */
type FieldRule = Readonly<{ weight: number; b: number }>

type KeywordRules<Field extends string> = Readonly<{
  fields: Readonly<Record<Field, FieldRule>>
  /** The weighted frequency at which a word has half of its maximum score. */
  saturation: number
}>

type NamedDocument = Readonly<{ name: string; title: string | null }>

/** By the index of each document. */
export type WordScores = Readonly<{
  /** 0 where it does not match. */
  scores: Float64Array
  /** Whether the query is its name or its title. */
  isNamed: readonly boolean[]
  /** The share of the query that it covers, from 0 to 1, with more weight on rare words. */
  shareOf(index: number): number
  plan: QueryPlan
}>

/** The indexes of the documents that have a term, and what it adds to the score of each. */
type Postings = Readonly<{ documents: Int32Array; values: Float64Array }>
type Entry = Readonly<{ namePhrase: string; titlePhrase: string }>

const boosts = { exactName: 1000, nameContains: 100, exactTitle: 600, titleContains: 60 } as const
/** The share of the score that does not depend on coverage of the query. */
const coverageFloor = 0.4

export const englishQueries: QueryLanguage = createQueryLanguage(stem)

export function buildKeywordIndex<Field extends string>(
  documents: readonly NamedDocument[],
  wordsOf: (index: number) => Readonly<Record<Field, readonly string[]>>,
  rules: KeywordRules<Field>,
): KeywordIndex {
  const steps = keywordIndexSteps(documents, wordsOf, rules, englishQueries)
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Builds the index in steps that each take much less than a millisecond. */
export function* keywordIndexSteps<Field extends string>(
  documents: readonly NamedDocument[],
  wordsOf: (index: number) => Readonly<Record<Field, readonly string[]>>,
  rules: KeywordRules<Field>,
  language: QueryLanguage,
): Generator<undefined, KeywordIndex> {
  const entries: Entry[] = []
  const texts: Readonly<Record<Field, readonly string[]>>[] = []
  for (const [index, { name, title }] of documents.entries()) {
    entries.push({ namePhrase: phrase(name, language), titlePhrase: phrase(title ?? '', language) })
    texts.push(wordsOf(index))
    yield
  }
  const { postings, surfaces } = yield* indexTexts(texts, rules, language)
  return {
    score(query, visible) {
      const plan = planQuery(query, knownTerms(postings, surfaces, visible), language)
      return scoreWords(entries, visible, plan, postings, phrase(query, language))
    },
  }
}

const rarityOf = (count: number, having: number): number => Math.log(1 + (count - having + 0.5) / (having + 0.5))

/** BM25F: one weighted, length-corrected frequency per term and document over all fields, then saturation and rarity. */
function* indexTexts<Field extends string>(
  texts: readonly Readonly<Record<Field, readonly string[]>>[],
  { fields, saturation }: KeywordRules<Field>,
  language: QueryLanguage,
): Generator<undefined, { postings: ReadonlyMap<string, Postings>; surfaces: ReadonlyMap<string, string> }> {
  const fieldNames = Object.keys(fields) as Field[]
  const average = {} as Record<Field, number>
  for (const field of fieldNames) {
    average[field] = texts.reduce((sum, words) => sum + words[field].length, 0) / Math.max(1, texts.length)
  }
  const surfaces = new Map<string, string>()
  const frequencies = new Map<string, Map<number, number>>()
  for (const [index, words] of texts.entries()) {
    for (const field of fieldNames) {
      const { weight, b } = fields[field]
      const perWord = weight / (1 - b + (b * words[field].length) / Math.max(1, average[field]))
      for (const surface of words[field]) {
        const term = surfaces.get(surface) ?? language.stem(surface)
        surfaces.set(surface, term)
        const list = frequencies.get(term) ?? new Map<number, number>()
        if (list.size === 0) frequencies.set(term, list)
        list.set(index, (list.get(index) ?? 0) + perWord)
      }
    }
    yield
  }
  const postings = new Map<string, Postings>()
  for (const [term, list] of frequencies) {
    const rarity = rarityOf(texts.length, list.size)
    const values = Float64Array.from(list.values(), (frequency) => (rarity * frequency) / (saturation + frequency))
    postings.set(term, { documents: Int32Array.from(list.keys()), values })
    yield
  }
  return { postings, surfaces }
}

function knownTerms(
  postings: ReadonlyMap<string, Postings>,
  surfaces: ReadonlyMap<string, string>,
  visible: readonly boolean[],
) {
  const has = (term: string): boolean => postings.get(term)?.documents.some((index) => visible[index]) ?? false
  return {
    has,
    surfaces: function* () {
      for (const pair of surfaces) if (has(pair[1])) yield pair
    },
  }
}

function scoreWords(
  entries: readonly Entry[],
  visible: readonly boolean[],
  plan: QueryPlan,
  postings: ReadonlyMap<string, Postings>,
  queryPhrase: string,
): WordScores {
  const count = entries.length
  const sums = new Float64Array(count)
  const met = new Uint8Array(count)
  /** The score of a document that consists of every word. */
  let whole = plan.unmatched.length * rarityOf(count, 0)
  for (const unit of plan.units) {
    const best = new Float64Array(count)
    for (const [term, weight] of unit.alternatives) {
      const { documents, values } = postings.get(term) ?? nowhere
      for (let at = 0; at < documents.length; at++) {
        const document = documents[at]!
        if (values[at]! * weight > best[document]!) best[document] = values[at]! * weight
      }
    }
    for (let index = 0; index < count; index++) {
      if (best[index] === 0) continue
      sums[index]! += best[index]!
      met[index]!++
    }
    const [own = ''] = unit.alternatives.keys()
    whole += rarityOf(count, postings.get(own)?.documents.length ?? 0)
  }
  const isNamed = new Array<boolean>(count).fill(false)
  const scores = new Float64Array(count)
  for (let index = 0; index < count; index++) {
    if (!visible[index]) continue
    const boost = spellingBoost(entries[index]!, queryPhrase)
    isNamed[index] = boost >= boosts.exactTitle
    const coverage = coverageFloor + ((1 - coverageFloor) * met[index]!) / Math.max(1, plan.units.length)
    scores[index] = sums[index]! * coverage + boost
  }
  const shareOf = (index: number): number => (whole === 0 ? 0 : Math.min(1, sums[index]! / whole))
  return { scores, isNamed, shareOf, plan }
}

const nowhere: Postings = { documents: new Int32Array(), values: new Float64Array() }

/** The words of a text in order, as ` one two `, so that consecutive words are a substring. */
function phrase(text: string, language: QueryLanguage): string {
  const words = splitPieces(text).flatMap((piece) => piece.parts)
  const meaningful = words.filter((word) => !stopWords.has(word))
  return ` ${(meaningful.length > 0 ? meaningful : words).map(language.stem).join(' ')} `
}

/** For a query that equals the name or title, or a part of it, apart from case, separators and word forms. */
function spellingBoost(entry: Entry, queryPhrase: string): number {
  if (queryPhrase.trim() === '') return 0
  let boost = 0
  if (entry.namePhrase === queryPhrase) boost += boosts.exactName
  else if (entry.namePhrase.includes(queryPhrase)) boost += boosts.nameContains
  if (entry.titlePhrase === queryPhrase) boost += boosts.exactTitle
  else if (entry.titlePhrase.includes(queryPhrase)) boost += boosts.titleContains
  return boost
}
