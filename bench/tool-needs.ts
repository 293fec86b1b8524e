/**
 * How often the right tool is among the first answers of search_tools to needs as people say them: by words as they were
 * before users' words were written down, by words, by meaning, and by both.
 *
 *   node bench/tool-needs.ts            the table
 *   node bench/tool-needs.ts --misses   also every tuning sentence whose tool is not the first
 */
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import type { Embedder } from '../src/contract/embedder.ts'
import { createLocalEmbedder } from '../src/search/local-embedder.ts'
import { createPreparedCatalog } from '../src/tools/runtime/catalog.ts'
import { searchableTools } from '../src/tools/runtime/create-tool-search.ts'
import { preparedTools } from '../src/tools/runtime/prepared-tools.ts'
import { searchLimits } from '../src/tools/runtime/search/search-request.ts'
import { buildToolIndex, type SearchableTool } from '../src/tools/runtime/search/tool-index.ts'
import shipped from '../src/tools/runtime/search/tool-vectors.json' with { type: 'json' }
import { vectorsOfTools } from '../src/tools/runtime/search/tool-vectors.ts'
import { createVectorTable } from '../src/tools/runtime/search/vector-table.ts'
import { loadQueries, measureRecall, type RankedSearch, type RecallQuery, rankOf } from './recall.ts'

export type NeedSet = 'tuning' | 'held-out'

/** Sentences, each with the tools that answer it. */
export function loadNeeds(set: NeedSet): readonly RecallQuery[] {
  const file = new URL(`../test/search/tool-needs-${set}.json`, import.meta.url)
  const { needs } = JSON.parse(readFileSync(file, 'utf8')) as { needs: { says: string; tools: string[] }[] }
  return needs.map(({ says, tools }) => ({
    kind: 'sentence',
    set: set === 'tuning' ? 'train' : 'holdout',
    query: says,
    expected: tools,
  }))
}

/** The few words that the recall set has for tools of this catalogue. */
export async function loadFewWords(): Promise<readonly RecallQuery[]> {
  const names = new Set((await shippedTools()).map(({ tool }) => tool.name))
  return loadQueries().filter(({ expected }) => expected.some((name) => names.has(name)))
}

export type NeedSearches = Readonly<Record<'words before' | 'words' | 'meaning' | 'both', RankedSearch>>

/** The tools that search can answer, each with the vectors that are shipped for it. */
export async function shippedTools(): Promise<
  readonly Readonly<{ tool: SearchableTool; vectors: readonly Int8Array[] }>[]
> {
  const tools = await searchableTools(createPreparedCatalog(preparedTools().tools, async () => []).tools)
  const noModel: Embedder = { model: shipped.model, embed: async () => Promise.reject(new Error('run npm run gen')) }
  const vectors = await vectorsOfTools(tools, noModel, shipped, new AbortController().signal)
  return tools.map((tool, index) => ({ tool, vectors: vectors[index]! }))
}

/** Searches over the catalogue; every query that they are asked must be among those given. */
export async function needSearches(queries: readonly RecallQuery[]): Promise<NeedSearches> {
  const known = await shippedTools()
  const tools = known.map(({ tool }) => tool)
  const embedder = createLocalEmbedder()
  try {
    const texts = queries.map(({ query }) => query)
    const made = await embedder.embed(texts, new AbortController().signal)
    const asked = new Map(texts.map((query, index) => [query, made[index]!]))
    const before = buildToolIndex(tools.map(({ usersSay: _, ...tool }) => tool))
    const index = buildToolIndex(tools, { vectors: new Map(known.map(({ tool, vectors }) => [tool.name, vectors])) })
    const meaningOfAll = createVectorTable(known.map(({ vectors }) => vectors))
    const limit = searchLimits.limitMax
    const namesOf = ({ tools: found }: ReturnType<typeof index.search>) => found.map(({ toolName }) => toolName)
    return {
      'words before': (query) => namesOf(before.search({ query, limit })),
      words: (query) => namesOf(index.search({ query, limit })),
      meaning: (query) => {
        const meanings = meaningOfAll(asked.get(query)!)
        const ranked = tools.map(({ name }, at) => ({ name, meaning: meanings[at]! }))
        return ranked.sort((left, right) => right.meaning - left.meaning).map(({ name }) => name)
      },
      both: (query) => namesOf(index.search({ query, limit, queryVector: asked.get(query) })),
    }
  } finally {
    await embedder.close()
  }
}

async function main(): Promise<void> {
  const tuning = loadNeeds('tuning')
  const heldOut = loadNeeds('held-out')
  const fewWords = await loadFewWords()
  const searches = await needSearches([...tuning, ...heldOut, ...fewWords])
  const sets = { tuning, 'held out': heldOut, 'few words': fewWords }
  const show = (value: number): string => value.toFixed(3).padStart(7)
  for (const [label, queries] of Object.entries(sets)) {
    console.log(`${label} (${queries.length})`.padEnd(26), '    @1      @3      @8     MRR')
    for (const [name, search] of Object.entries(searches)) {
      const { at1, at3, at8, meanReciprocalRank } = measureRecall(search, queries)
      console.log(`  ${name}`.padEnd(26), show(at1), show(at3), show(at8), show(meanReciprocalRank))
    }
  }
  if (!process.argv.includes('--misses')) return
  for (const need of tuning) {
    const rank = rankOf(searches.both, need)
    if (rank !== 1) console.log(rank, need.query, '→', searches.both(need.query).slice(0, 5).join(' '))
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) await main()
