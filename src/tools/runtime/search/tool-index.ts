import { hybridScoring } from '../../../kernel/hybrid-rank.ts'
import { englishQueries, keywordIndexSteps, type WordScores } from '../../../kernel/keyword-index.ts'
import type { QueryLanguage, QueryPlan } from '../../../kernel/query-plan.ts'
import type { TimeSlicer } from '../../../kernel/time-slicer.ts'
import { documentWords } from '../../../kernel/tokenize.ts'
import { paramsLine } from './params-line.ts'
import { matchByRegex } from './regex-match.ts'
import { type JsonSchema, schemaText } from './schema-text.ts'
import { checkRequest, searchLimits, type ToolSearchRequest } from './search-request.ts'
import { type TopScores, topScores } from './top-scores.ts'
import { createVectorTable } from './vector-table.ts'

/**
 * Finds tools by their purpose. Built once from all tools; a search touches only the postings of the query's words.
 *
 * 1. Word rarity is counted over the whole index. Everything else in an answer (tools, counts, server names, corrections of
 *    misspelt words) comes from the tools that the predicate allows.
 * 2. The same index and request always give the same answer: ties are resolved by name.
 * 3. Tools are told apart by their keys. Several may have one name, of which a caller may see at most one.
 */
type ToolSource = 'archestra' | 'mcp' | 'agent_delegation'
export type SearchableTool = Readonly<{
  name: string
  /** Which tool it is, where others have its name; the name if absent. */
  key?: string
  /** The name in the lists of some callers, if it differs; a pattern may match either. */
  safeName?: string
  title: string | null
  description: string | null
  inputSchema: JsonSchema
  source: ToolSource
  server: string | null
  /** Phrases of people who need the tool: searched like its description, and never shown. */
  usersSay?: readonly string[]
}>
type FoundTool = Readonly<{
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
/** The first of all matching names, in order, and the total number of matches. */
export type RankedNames = Readonly<{ names: readonly string[]; total: number }>
export type ToolIndex = Readonly<{
  size: number
  search(request: ToolSearchRequest): ToolSearchAnswer
  /** The ranking alone, for another form of answer. */
  rank(request: Pick<ToolSearchRequest, 'query' | 'queryVector' | 'isVisible'>): RankedNames
}>

const fields = {
  name: { weight: 10, b: 0 },
  title: { weight: 6, b: 0 },
  description: { weight: 3, b: 0.75 },
  argumentNames: { weight: 2, b: 0.5 },
  argumentTexts: { weight: 1, b: 0.75 },
  usersSay: { weight: 3, b: 0.75 },
} as const
type Field = keyof typeof fields
const rules = { fields, saturation: 3 } as const

type Entry = Readonly<{ tool: SearchableTool; found: () => FoundTool }>

type IndexOptions = Readonly<{
  language?: QueryLanguage
  vectors?: ReadonlyMap<string, readonly Int8Array[]>
}>

/** All at once, for a few hundred tools. */
export function buildToolIndex(tools: Iterable<SearchableTool>, options: IndexOptions = {}): ToolIndex {
  const steps = indexSteps(tools, options)
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** The same for very many tools, in slices that let other work run. */
export async function buildToolIndexInSlices(
  tools: Iterable<SearchableTool>,
  slicer: Pick<TimeSlicer, 'pause'>,
  options: IndexOptions = {},
): Promise<ToolIndex> {
  const steps = indexSteps(tools, options)
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
    const pause = slicer.pause()
    if (pause !== undefined) await pause
  }
}

/** Builds the index in steps of much less than a millisecond each, except the last. */
function* indexSteps(
  tools: Iterable<SearchableTool>,
  { language = englishQueries, vectors = new Map() }: IndexOptions,
): Generator<undefined, ToolIndex> {
  const entries: Entry[] = []
  const unique = uniqueByKey(tools)
  yield
  for (const tool of unique) {
    entries.push(toEntry(tool))
    yield
  }
  const names = entries.map(({ tool }) => tool.name)
  const visibleBy = (isVisible: NonNullable<ToolSearchRequest['isVisible']>): boolean[] =>
    entries.map(({ tool }) => isVisible(toolKey(tool), tool.name))
  const documents = entries.map(({ tool }) => tool)
  const words = yield* keywordIndexSteps(documents, (index) => fieldWords(documents[index]!), rules, language)
  const meaningOfAll = createVectorTable(entries.map(({ tool }) => vectors.get(toolKey(tool)) ?? []))
  const ranked = (query: string, visible: readonly boolean[], queryVector: Float32Array | undefined, limit: number) => {
    const byWords = words.score(query, visible)
    const top =
      queryVector === undefined
        ? topScores(byWords.scores, limit)
        : rankByMeaning(meaningOfAll(queryVector), visible, byWords, query, limit, namedIn(entries, visible, query))
    return { ...top, plan: byWords.plan }
  }
  return {
    size: entries.length,
    rank: ({ query, queryVector, isVisible = () => true }) => {
      // The words of a long text are its beginning; its meaning is in `queryVector`.
      const beginning = query.slice(0, searchLimits.queryCharactersMax)
      const { first, total } = ranked(beginning, visibleBy(isVisible), queryVector, searchLimits.rankedMax)
      return { names: first.map((index) => names[index]!), total }
    },
    search: (request) => {
      const { query, limit, mode } = checkRequest(request)
      const isVisible = request.isVisible ?? (() => true)
      const visible = visibleBy(isVisible)
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
      const { queryVector } = request
      const { first, total, plan } = ranked(query, visible, queryVector, limit)
      return answer(
        first.map((index) => entries[index]!),
        total,
        {
          displayed: () => entries.filter((_, index) => visible[index]),
          corrected: plan.corrected,
          unmatched: queryVector === undefined ? plan.unmatched : [],
        },
      )
    },
  }
}

/** Any two texts have this much in common. */
const MEANING_MIN = 0.3
/** How fast the weight of a rank among word matches falls: the third has half the weight of the first. */
const RANK_WORTH = 2

/** Later word matches are found but do not raise a score. */
const RANKED_MAX = 100
/** Above any score by meaning and words. */
const NAMED = 2

/** A tool that the query names comes first; the others are ranked by meaning and words together. */
function rankByMeaning(
  meanings: Float64Array,
  visible: readonly boolean[],
  { scores, isNamed }: WordScores,
  query: string,
  limit: number,
  exact: number,
): TopScores {
  const words = new Float64Array(scores.length)
  for (const [rank, index] of topScores(scores, RANKED_MAX).first.entries()) {
    words[index] = RANK_WORTH / (RANK_WORTH + rank)
  }
  const scoreOf = hybridScoring(query)
  const fused = new Float64Array(scores.length)
  for (let index = 0; index < fused.length; index++) {
    const meaning = meanings[index]!
    if (!visible[index] || (meaning < MEANING_MIN && scores[index] === 0)) continue
    // A tool that matches only by a word far down still counts as found.
    fused[index] = isNamed[index] ? NAMED + words[index]! : Math.max(Number.MIN_VALUE, scoreOf(meaning, words[index]!))
  }
  // Names that differ only in their endings are named by the same words.
  if (exact !== -1) fused[exact] = 2 * NAMED
  return topScores(fused, limit)
}

/** The visible tool whose whole name equals the query; -1 if there is none. */
function namedIn(entries: readonly Entry[], visible: readonly boolean[], query: string): number {
  const name = query.trim()
  return entries.findIndex(({ tool }, index) => visible[index] && (tool.name === name || tool.safeName === name))
}

export const toolKey = ({ key, name }: Pick<SearchableTool, 'key' | 'name'>): string => key ?? name

/** Of several tools with one key the first counts. */
function uniqueByKey(tools: Iterable<SearchableTool>): SearchableTool[] {
  const byKey = new Map<string, SearchableTool>()
  for (const tool of tools) if (!byKey.has(toolKey(tool))) byKey.set(toolKey(tool), tool)
  return [...byKey.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

function toEntry(tool: SearchableTool): Entry {
  let found: FoundTool | undefined
  return {
    tool,
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
