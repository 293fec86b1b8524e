import type { Call } from '../../contract/call.ts'
import type { Embedder } from '../../contract/embedder.ts'
import { limits } from '../../contract/limits.ts'
import { requireOwnTenant } from '../../contract/own-tenant.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { hybridScoring, likeness, meaningOf } from '../../kernel/hybrid-rank.ts'
import { buildKeywordIndex } from '../../kernel/keyword-index.ts'
import type { Logger } from '../../kernel/logger.ts'
import { documentWords, foldWord } from '../../kernel/tokenize.ts'
import type { AgentStatus } from './ports.ts'

export type SearchInput = Readonly<{
  query: string
  tenant_id?: string | undefined
  limit: number
  min_score: number
  labels?: Readonly<Record<string, string>> | undefined
  status?: AgentStatus | undefined
  include_platform_templates: boolean
}>

type Searchable = SearchDocument & Readonly<{ id: string; version: string; status?: AgentStatus }>
type SearchMode = 'semantic' | 'keyword'

/** Searches by embeddings if a model is available, otherwise by keywords. The answer says which. */
export type AgentSearch = ReturnType<typeof createAgentSearch>

export function createAgentSearch(deps: Readonly<{ embedder: Embedder | undefined; logger: Logger }>) {
  const rank = createRanking(deps)
  return {
    async search<Row extends Searchable>(call: Call, rows: readonly Row[], input: SearchInput) {
      requireOwnTenant(call.principal, input.tenant_id)
      const candidates = rows.filter(
        ({ labels, status }) =>
          matchesLabels(labels, input.labels) && (input.status === undefined || status === input.status),
      )
      const { scores, mode, warning } = await rank(input.query, candidates, call.signal)
      if (warning !== undefined) call.warn(warning)
      const found = candidates
        .map(({ id, name, version, description, labels }, index) => ({
          id,
          name,
          version,
          description,
          labels,
          score: Math.round(scores[index]! * 10_000) / 10_000,
        }))
        .filter(({ score }) => score >= input.min_score && score > 0)
        .sort((left, right) => right.score - left.score || (left.name < right.name ? -1 : 1))
      return { query: input.query, results: found.slice(0, input.limit), total: found.length, mode }
    },
  }
}

export const matchesLabels = (
  have: Readonly<Record<string, string>>,
  requested: Readonly<Record<string, string>> | undefined,
): boolean =>
  Object.entries(requested ?? {}).every(([name, value]) => Object.hasOwn(have, name) && have[name] === value)

type Ranked = Readonly<{ scores: readonly number[]; mode: SearchMode; warning?: string }>

const noModel =
  'No model for semantic search is available (search.local_model, search.embeddings), so these are keyword matches.'
const noAnswer = 'The model for semantic search did not answer, so these are keyword matches.'

/** Vectors are cached up to a bound: a description is embedded once. */
function createRanking({ embedder, logger }: Readonly<{ embedder: Embedder | undefined; logger: Logger }>) {
  const vectors = new Map<string, Float32Array>()

  async function embedAll(model: Embedder, texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]> {
    const keys = texts.map((text) => sha256Hex(`${model.model}\n${text}`))
    const missing = [...new Map(keys.map((key, index) => [key, texts[index]!]))].filter(([key]) => !vectors.has(key))
    const fresh = new Map<string, Float32Array>()
    for (let start = 0; start < missing.length; start += limits.embeddingBatchMax) {
      const batch = missing.slice(start, start + limits.embeddingBatchMax)
      const made = await model.embed(
        batch.map(([, text]) => text),
        signal,
      )
      for (const [index, [key]] of batch.entries()) fresh.set(key, made[index]!)
    }
    const found = keys.map((key) => fresh.get(key) ?? vectors.get(key)!)
    for (const [key, vector] of fresh) vectors.set(key, vector)
    while (vectors.size > limits.embeddingsCachedMax) vectors.delete(vectors.keys().next().value!)
    return found
  }

  return async (query: string, documents: readonly SearchDocument[], signal: AbortSignal): Promise<Ranked> => {
    const byWords = keywordScores(query, documents)
    if (embedder === undefined) return { scores: byWords, mode: 'keyword', warning: noModel }
    // If there are very many documents, those without a word of the query are not embedded.
    const chosen = mostPromising(byWords, limits.embeddingDocumentsMax)
    try {
      const texts = chosen.map((index) => documentText(documents[index]!))
      const [queryVector, ...made] = await embedAll(embedder, [query, ...texts], signal)
      const scores = documents.map(() => 0)
      const asName = plainName(query)
      const scoreOf = hybridScoring(query)
      for (const [position, index] of chosen.entries()) {
        const document = documents[index]!
        const isNamed = plainName(document.name) === asName
        const meaning = trusted(meaningOf([likeness(queryVector!, made[position]!)]), document, byWords[index]!)
        scores[index] = isNamed ? 1 : scoreOf(meaning, byWords[index]!)
      }
      return { scores, mode: 'semantic' }
    } catch (error) {
      if (signal.aborted) throw error
      logger.warn('semantic search fell back to keywords', { cause: String(error) })
      return { scores: byWords, mode: 'keyword', warning: noAnswer }
    }
  }
}

const mostPromising = (scores: readonly number[], count: number): number[] =>
  scores
    .map((score, index) => ({ score, index }))
    .sort((left, right) => right.score - left.score)
    .slice(0, count)
    .map(({ index }) => index)

function documentText({ name, description, hint = '', labels }: SearchDocument): string {
  const about =
    description === '' ? [hint, ...Object.values(labels)].filter((text) => text !== '').join(', ') : description
  return `${name.replaceAll('-', ' ')}. ${about}`
}

/** A bare name is slightly similar to any query, so its similarity counts only above this value unless a keyword confirms it. */
const BARE_LIKENESS = 0.3
const trusted = (meaning: number, { description }: SearchDocument, words: number): number =>
  description !== '' || words > 0 ? meaning : Math.max(0, (meaning - BARE_LIKENESS) / (1 - BARE_LIKENESS))

/** A searchable document: its name counts most, then its description and labels. */
type SearchDocument = Readonly<{
  name: string
  description: string
  labels: Readonly<Record<string, string>>
  /** Used if there is no description. */
  hint?: string
}>

/** A word of a name scores almost fully, one of a label a little less. The length of a text does not matter. */
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
function keywordScores(query: string, documents: readonly SearchDocument[]): number[] {
  const named = documents.map(({ name }) => ({ name, title: null }))
  const index = buildKeywordIndex(named, (at) => wordsOf(documents[at]!), rules)
  const { shareOf } = index.score(
    query.trim().split(/\s+/, WORDS_MAX).join(' '),
    documents.map(() => true),
  )
  const asName = plainName(query)
  return documents.map(({ name }, at) => (plainName(name) === asName ? 1 : shareOf(at)))
}

const plainName = (text: string): string => documentWords(text).map(foldWord).join(' ')

const wordsOf = ({ name, description, labels, hint = '' }: SearchDocument) => ({
  name: documentWords(name),
  description: documentWords(description),
  hint: documentWords(hint),
  labels: Object.entries(labels).flatMap(([key, value]) => documentWords(`${key} ${value}`)),
})
