import { AppError } from '../../../contract/app-error.ts'
import { hybridScoring } from '../../../kernel/hybrid-rank.ts'
import { stem } from '../../../kernel/stem.ts'
import { stopWords } from '../../../kernel/stop-words.ts'
import { documentWords, splitPieces } from '../../../kernel/tokenize.ts'
import { type FirstPlaces, firstPlaces } from './first-places.ts'
import { paramsLine } from './params-line.ts'
import { createQueryLanguage, planQuery, type QueryLanguage, type QueryPlan } from './query-plan.ts'
import { matchByRegex } from './regex-match.ts'
import { type JsonSchema, schemaText } from './schema-text.ts'
import { createVectorTable } from './vector-table.ts'

/**
 * Finds tools by what they are for. Built once from all tools; a search touches only the postings of the query's words.
 *
 * 1. Word rarity is counted over the whole index; everything else that an answer shows (tools, counts, server names,
 *    readings of misspelt words) comes from the tools that the predicate lets through.
 * 2. The same index and request always give the same answer: ties are settled by name.
 * 3. Of several tools with one name the first counts.
 */
export type ToolSource = 'archestra' | 'mcp' | 'agent_delegation'
export type SearchableTool = Readonly<{
  name: string
  /** How some callers' lists spell the name, where that differs; a pattern may be for either. */
  safeName?: string
  title: string | null
  description: string | null
  inputSchema: JsonSchema
  source: ToolSource
  server: string | null
  /** What people say who need it: found like its description, and never shown. */
  usersSay?: readonly string[]
}>
export type ToolSearchRequest = Readonly<{
  query: string
  limit?: number | undefined
  mode?: 'keyword' | 'regex' | undefined
  /** The query as a vector of the model that the index has vectors of: with it, meaning comes before words. */
  asked?: Float32Array | undefined
  /** The caller's visible set; every tool when absent. */
  isVisible?: ((toolName: string) => boolean) | undefined
}>
export type FoundTool = Readonly<{
  toolName: string
  description: string | null
  source: ToolSource
  server: string | null
  params: string
}>
export type ToolSearchAnswer = Readonly<{
  total: number
  matchCount: number
  truncated: boolean
  hint: string | null
  tools: readonly FoundTool[]
}>
export type ToolIndex = Readonly<{ size: number; search(request: ToolSearchRequest): ToolSearchAnswer }>

export const searchLimits = { queryCharactersMax: 200, limitMax: 20, limitDefault: 8, serversInHintMax: 10 } as const

const fields = {
  name: { weight: 10, b: 0 },
  title: { weight: 6, b: 0 },
  description: { weight: 3, b: 0.75 },
  argumentNames: { weight: 2, b: 0.5 },
  argumentTexts: { weight: 1, b: 0.75 },
  usersSay: { weight: 3, b: 0.75 },
} as const
type Field = keyof typeof fields
const fieldNames = Object.keys(fields) as Field[]
const saturation = 3
const boosts = { exactName: 1000, nameContains: 100, exactTitle: 600, titleContains: 60 } as const
/** The share of the score that does not depend on how many of the query's ideas a tool meets. */
const coverageFloor = 0.4

type Entry = Readonly<{ tool: SearchableTool; namePhrase: string; titlePhrase: string; found: () => FoundTool }>
/** By the place of each tool: its score, 0 where it does not match, and whether the query is its name or its title. */
type WordScores = Readonly<{ scores: Float64Array; isNamed: readonly boolean[] }>
/** The places of the tools that have a term, and what it adds to the score of each. */
type Postings = Readonly<{ places: Int32Array; values: Float64Array }>

export const englishQueries: QueryLanguage = createQueryLanguage(stem)

export function buildToolIndex(
  tools: Iterable<SearchableTool>,
  language: QueryLanguage = englishQueries,
  vectors: ReadonlyMap<string, readonly Int8Array[]> = new Map(),
): ToolIndex {
  const entries = uniqueByName(tools).map((tool) => toEntry(tool, language))
  const names = entries.map(({ tool }) => tool.name)
  const { postings, surfaces } = indexTexts(entries, language)
  const meaningOfAll = createVectorTable(entries.map(({ tool }) => vectors.get(tool.name) ?? []))
  return {
    size: entries.length,
    search: (request) => {
      const { query, limit, mode } = checkRequest(request)
      const isVisible = request.isVisible ?? (() => true)
      const visible = names.map(isVisible)
      if (mode === 'regex') {
        const displayed = entries.filter((_, index) => visible[index])
        const matched = matchByRegex(query, displayed, (entry) => [
          entry.tool.name,
          entry.tool.safeName ?? null,
          entry.tool.title,
          entry.tool.description,
        ])
        return answer(matched.slice(0, limit), matched.length, { isRegex: true, displayed: () => displayed })
      }
      const plan = planQuery(query, knownTerms(postings, surfaces, visible), language)
      const byWords = scoreWords(entries, visible, plan, postings, phrase(query, language))
      const { asked } = request
      const { first, total } =
        asked === undefined
          ? firstPlaces(byWords.scores, limit)
          : rankByMeaning(meaningOfAll(asked), visible, byWords, query, limit)
      return answer(
        first.map((index) => entries[index]!),
        total,
        {
          displayed: () => entries.filter((_, index) => visible[index]),
          corrected: plan.corrected,
          unmatched: asked === undefined ? plan.unmatched : [],
        },
      )
    },
  }
}

/** Less than this is what any two texts have in common. */
const MEANING_MIN = 0.3
/** How fast a place among the matches of words loses its worth: the third is worth half of the first. */
const PLACE_WORTH = 2

/** Matches of words that come later are found, but raise nothing. */
const PLACES_MAX = 100
/** More than any score by meaning and words. */
const NAMED = 2

/** A tool that the query names comes first, whatever it means; the others by meaning and words together. */
function rankByMeaning(
  meanings: Float64Array,
  visible: readonly boolean[],
  { scores, isNamed }: WordScores,
  query: string,
  limit: number,
): FirstPlaces {
  const words = new Float64Array(scores.length)
  for (const [place, index] of firstPlaces(scores, PLACES_MAX).first.entries()) {
    words[index] = PLACE_WORTH / (PLACE_WORTH + place)
  }
  const scoreOf = hybridScoring(query)
  const fused = new Float64Array(scores.length)
  for (let index = 0; index < fused.length; index++) {
    const meaning = meanings[index]!
    if (!visible[index] || (meaning < MEANING_MIN && scores[index] === 0)) continue
    // What matches by a word alone that is far down still counts as found.
    fused[index] = isNamed[index] ? NAMED + words[index]! : Math.max(Number.MIN_VALUE, scoreOf(meaning, words[index]!))
  }
  return firstPlaces(fused, limit)
}

function checkRequest(request: ToolSearchRequest): { query: string; limit: number; mode: 'keyword' | 'regex' } {
  const query = request.query.trim()
  const { queryCharactersMax, limitMax, limitDefault } = searchLimits
  if (query.length < 1 || query.length > queryCharactersMax) {
    const rule = `must have 1 to ${queryCharactersMax} characters after trimming`
    throw new AppError('ERR_INVALID_INPUT', `query: ${rule}. Name the capability in a few words.`, {
      field: 'query',
      rule,
    })
  }
  const limit = request.limit ?? limitDefault
  if (!Number.isInteger(limit) || limit < 1 || limit > limitMax) {
    const rule = `must be an integer from 1 to ${limitMax}`
    throw new AppError('ERR_INVALID_INPUT', `limit: ${rule}. Leave it out for ${limitDefault}.`, {
      field: 'limit',
      rule,
    })
  }
  const mode = request.mode ?? 'keyword'
  if (mode !== 'keyword' && mode !== 'regex') {
    const rule = 'must be "keyword" or "regex"'
    throw new AppError('ERR_INVALID_INPUT', `mode: ${rule}. Leave it out for "keyword".`, { field: 'mode', rule })
  }
  return { query, limit, mode }
}

function uniqueByName(tools: Iterable<SearchableTool>): SearchableTool[] {
  const byName = new Map<string, SearchableTool>()
  for (const tool of tools) if (!byName.has(tool.name)) byName.set(tool.name, tool)
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

function toEntry(tool: SearchableTool, language: QueryLanguage): Entry {
  let found: FoundTool | undefined
  return {
    tool,
    namePhrase: phrase(tool.name, language),
    titlePhrase: phrase(tool.title ?? '', language),
    found: () => {
      const { name: toolName, description, source, server } = tool
      found ??= { toolName, description, source, server, params: paramsLine(tool.inputSchema) }
      return found
    },
  }
}

function fieldWords(tool: SearchableTool): Record<Field, string[]> {
  const schema = schemaText(tool.inputSchema)
  return {
    name: documentWords(tool.name),
    title: documentWords(tool.title ?? ''),
    description: documentWords(tool.description ?? ''),
    argumentNames: schema.names.flatMap(documentWords),
    argumentTexts: schema.descriptions.flatMap(documentWords),
    usersSay: (tool.usersSay ?? []).flatMap(documentWords),
  }
}

/** BM25F: one weighted, length-corrected frequency per term and tool over all fields, then saturation and rarity. */
function indexTexts(
  entries: readonly Entry[],
  language: QueryLanguage,
): { postings: ReadonlyMap<string, Postings>; surfaces: ReadonlyMap<string, string> } {
  const texts = entries.map((entry) => fieldWords(entry.tool))
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
  }
  const postings = new Map<string, Postings>()
  for (const [term, list] of frequencies) {
    const rarity = Math.log(1 + (entries.length - list.size + 0.5) / (list.size + 0.5))
    const values = Float64Array.from(list.values(), (frequency) => (rarity * frequency) / (saturation + frequency))
    postings.set(term, { places: Int32Array.from(list.keys()), values })
  }
  return { postings, surfaces }
}

function knownTerms(
  postings: ReadonlyMap<string, Postings>,
  surfaces: ReadonlyMap<string, string>,
  visible: readonly boolean[],
) {
  const has = (term: string): boolean => postings.get(term)?.places.some((place) => visible[place]) ?? false
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
  const sums = new Float64Array(entries.length)
  const met = new Uint8Array(entries.length)
  for (const unit of plan.units) {
    const best = new Float64Array(entries.length)
    for (const [term, weight] of unit.alternatives) {
      const { places, values } = postings.get(term) ?? nowhere
      for (let at = 0; at < places.length; at++) {
        const place = places[at]!
        if (values[at]! * weight > best[place]!) best[place] = values[at]! * weight
      }
    }
    for (let place = 0; place < best.length; place++) {
      if (best[place] === 0) continue
      sums[place]! += best[place]!
      met[place]!++
    }
  }
  const isNamed = new Array<boolean>(entries.length).fill(false)
  const scores = new Float64Array(entries.length)
  for (let place = 0; place < scores.length; place++) {
    if (!visible[place]) continue
    const boost = spellingBoost(entries[place]!, queryPhrase)
    isNamed[place] = boost >= boosts.exactTitle
    const coverage = coverageFloor + ((1 - coverageFloor) * met[place]!) / Math.max(1, plan.units.length)
    scores[place] = sums[place]! * coverage + boost
  }
  return { scores, isNamed }
}

const nowhere: Postings = { places: new Int32Array(), values: new Float64Array() }

/** The words of a text in order, as ` one two `, so that a stretch of words is a substring. */
function phrase(text: string, language: QueryLanguage): string {
  const words = splitPieces(text).flatMap((piece) => piece.parts)
  const meaningful = words.filter((word) => !stopWords.has(word))
  return ` ${(meaningful.length > 0 ? meaningful : words).map(language.stem).join(' ')} `
}

/** For a query that is, but for case, separators and word forms, the name or title itself or a stretch of it. */
function spellingBoost(entry: Entry, queryPhrase: string): number {
  if (queryPhrase.trim() === '') return 0
  let boost = 0
  if (entry.namePhrase === queryPhrase) boost += boosts.exactName
  else if (entry.namePhrase.includes(queryPhrase)) boost += boosts.nameContains
  if (entry.titlePhrase === queryPhrase) boost += boosts.exactTitle
  else if (entry.titlePhrase.includes(queryPhrase)) boost += boosts.titleContains
  return boost
}

function answer(
  first: readonly Entry[],
  matchCount: number,
  about: Readonly<{
    displayed: () => readonly Entry[]
    isRegex?: true
    corrected?: QueryPlan['corrected']
    unmatched?: QueryPlan['unmatched']
  }>,
): ToolSearchAnswer {
  const tools = first.map((entry) => entry.found())
  const truncated = matchCount > tools.length
  const hints: string[] = []
  if (matchCount === 0) hints.push(nothingFound(about.displayed(), about.isRegex === true))
  if (truncated) {
    const { limitMax } = searchLimits
    hints.push(
      `Showing ${tools.length} of ${matchCount} matches: add words that narrow the query${tools.length < limitMax ? `, or raise limit (at most ${limitMax})` : ''}.`,
    )
  }
  for (const { displayed, reading } of about.corrected ?? [])
    hints.push(`No tool text has ${quote(displayed)}; it was read as ${quote(reading)}.`)
  if (about.unmatched !== undefined && about.unmatched.length > 0)
    hints.push(`No tool text has: ${about.unmatched.map(quote).join(', ')}.`)
  return {
    total: tools.length,
    matchCount,
    truncated,
    hint: hints.length > 0 ? hints.join(' ') : null,
    tools,
  }
}

const quote = (text: string): string => JSON.stringify(text)

function nothingFound(visible: readonly Entry[], isRegex: boolean): string {
  const servers = [...new Set(visible.map((entry) => entry.tool.server).filter((server) => server !== null))].sort()
  const { serversInHintMax } = searchLimits
  const more = servers.length > serversInHintMax ? ` and ${servers.length - serversInHintMax} more` : ''
  const named = servers.length > 0 ? ` Connected servers: ${servers.slice(0, serversInHintMax).join(', ')}${more}.` : ''
  const advice = isRegex ? 'Try a looser pattern, or mode "keyword".' : 'Try other or fewer words.'
  return `No tool matches. ${advice}${named}`
}
