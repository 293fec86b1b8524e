/**
 * How often the right tool is among the first answers of search_tools, ours beside a plain BM25F over lower-case a–z0–9
 * words, on queries that ranking was tuned on and on those that it was not.
 *
 *   node bench/recall.ts            the table
 *   node bench/recall.ts --misses   also every train query whose tool is not among the first eight
 */
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { createQueryLanguage, type QueryLanguage } from '../src/kernel/query-plan.ts'
import { stem } from '../src/kernel/stem.ts'
import { type JsonSchema, schemaText } from '../src/tools/runtime/search/schema-text.ts'
import { buildToolIndex, type SearchableTool } from '../src/tools/runtime/search/tool-index.ts'

export type RecallQuery = Readonly<{
  kind: string
  set: 'train' | 'holdout'
  query: string
  expected: readonly string[]
}>
export type RankedSearch = (query: string) => readonly string[]

const depth = 20
const load = (file: string): unknown => JSON.parse(readFileSync(new URL(`./recall/${file}`, import.meta.url), 'utf8'))

export const loadQueries = (): readonly RecallQuery[] => load('tool-queries.json') as RecallQuery[]

export function loadCatalogue(): readonly SearchableTool[] {
  const rows = load('catalogue.json') as { name: string; description: string; parameters: string }[]
  return rows.map(({ name, description, parameters }) => ({
    name,
    title: name.replace(/[._]+/g, ' ').replace(/\b[a-z]/g, (letter) => letter.toUpperCase()),
    description,
    inputSchema: parseParameters(parameters),
    source: 'archestra',
    server: null,
  }))
}

type Node = { properties: Record<string, unknown>; required: string[] }

/** `labels[].key!:string` and its like to JSON Schema. */
function parseParameters(text: string): JsonSchema {
  const root = { type: 'object', properties: {}, required: [] } as { type: string } & Node
  for (const part of text.split('; ').filter((entry) => entry !== '')) {
    const [, path = '', mark = '', type = ''] = /^(.+?)([!?]):(.*)$/.exec(part) ?? []
    const steps = path.split('.')
    let node: Node = root
    for (const step of steps.slice(0, -1)) {
      const holder = node.properties[step.replace('[]', '')] as Partial<Node> & { items?: Node }
      if (step.endsWith('[]')) holder.items ??= { properties: {}, required: [] }
      const target = holder.items ?? holder
      node = Object.assign(target, { properties: target.properties ?? {}, required: target.required ?? [] })
    }
    const name = steps.at(-1)!
    const values = /^\((.*)\)/.exec(type)?.[1]
    node.properties[name] =
      values === undefined ? { type: type.split('|')[0] } : { type: 'string', enum: values.split('|') }
    if (mark === '!') node.required.push(name)
  }
  return root
}

/** BM25F with fixed weights, no word forms, no other scripts: what a search of this kind commonly does. */
export function baselineSearch(tools: readonly SearchableTool[]): RankedSearch {
  const words = (text: string): string[] => text.toLowerCase().match(/[a-z0-9]+/g) ?? []
  const weights = [10, 6, 3, 2, 1]
  const lengthShares = [0, 0, 0.75, 0.5, 0.75]
  const documents = tools.map((tool) => {
    const schema = schemaText(tool.inputSchema)
    return [
      tool.name,
      tool.title ?? '',
      tool.description ?? '',
      schema.names.join(' '),
      schema.descriptions.join(' '),
    ].map(words)
  })
  const averages = weights.map(
    (_, field) => documents.reduce((sum, document) => sum + document[field]!.length, 0) / documents.length,
  )
  const score = (document: string[][], term: string): number => {
    let frequency = 0
    for (const [field, weight] of weights.entries()) {
      const count = document[field]!.filter((word) => word === term).length
      const share = lengthShares[field]!
      frequency += (weight * count) / (1 - share + (share * document[field]!.length) / Math.max(1, averages[field]!))
    }
    return frequency / (1.5 + frequency)
  }
  const rarity = (term: string): number => {
    const having = documents.filter((document) => document.some((field) => field.includes(term))).length
    return Math.log(1 + (documents.length - having + 0.5) / (having + 0.5))
  }
  return (query) => {
    const whole = query.trim().toLowerCase()
    const terms = [...new Set(words(whole))].map((term) => [term, rarity(term)] as const)
    const ranked = tools.map((tool, index) => {
      const name = tool.name.toLowerCase()
      const title = (tool.title ?? '').toLowerCase()
      let total = terms.reduce((sum, [term, rare]) => sum + rare * score(documents[index]!, term), 0)
      total += name === whole ? 1000 : name.includes(whole) ? 100 : 0
      total += title === whole ? 600 : title.includes(whole) ? 60 : 0
      return { name: tool.name, total }
    })
    ranked.sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1))
    return ranked
      .filter(({ total }) => total > 0)
      .slice(0, depth)
      .map(({ name }) => name)
  }
}

export function ourSearch(tools: readonly SearchableTool[], language?: QueryLanguage): RankedSearch {
  const index = buildToolIndex(tools, { ...(language && { language }) })
  return (query) => index.search({ query, limit: depth }).tools.map((tool) => tool.toolName)
}

export const rankOf = (search: RankedSearch, { query, expected }: RecallQuery): number =>
  search(query).findIndex((name) => expected.includes(name)) + 1

export type Recall = Readonly<{ count: number; at1: number; at3: number; at8: number; meanReciprocalRank: number }>

/** A query counts as answered at k when any of its expected tools is among the first k. */
export function measureRecall(search: RankedSearch, queries: readonly RecallQuery[]): Recall {
  const ranks = queries.map((query) => rankOf(search, query))
  const within = (k: number): number => ranks.filter((rank) => rank > 0 && rank <= k).length / ranks.length
  const meanReciprocalRank = ranks.reduce((sum, rank) => sum + (rank > 0 ? 1 / rank : 0), 0) / ranks.length
  return { count: ranks.length, at1: within(1), at3: within(3), at8: within(8), meanReciprocalRank }
}

function main(): void {
  const tools = loadCatalogue()
  const queries = loadQueries()
  const full = createQueryLanguage(stem)
  const same = (word: string): string => word
  const searches: [label: string, search: RankedSearch][] = [
    ['plain BM25F', baselineSearch(tools)],
    ['ours', ourSearch(tools)],
    ['ours, no stemming', ourSearch(tools, createQueryLanguage(same))],
    [
      'ours, plurals only',
      ourSearch(
        tools,
        createQueryLanguage((word) => word.replace(/(?<=[a-z]{2}[^su])s$/, '')),
      ),
    ],
    ['ours, no synonyms', ourSearch(tools, { ...full, related: () => new Map(), wordsWithin: () => [] })],
    ['ours, no correction', ourSearch(tools, { ...full, corrects: false })],
  ]
  const show = (value: number): string => value.toFixed(3).padStart(7)
  for (const set of ['train', 'holdout'] as const) {
    const chosen = queries.filter((query) => query.set === set)
    console.log(`${set} (${chosen.length} queries)`.padEnd(26), '    @1      @3      @8     MRR')
    for (const [label, search] of searches) {
      const { at1, at3, at8, meanReciprocalRank } = measureRecall(search, chosen)
      console.log(`  ${label}`.padEnd(26), show(at1), show(at3), show(at8), show(meanReciprocalRank))
    }
  }
  if (!process.argv.includes('--misses')) return
  const search = ourSearch(tools)
  for (const query of queries) {
    const rank = rankOf(search, query)
    if (query.set === 'train' && (rank === 0 || rank > 3))
      console.log(rank, query.query, '→', search(query.query).slice(0, 5).join(' '))
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) main()
