import { createLocalEmbedder } from '../../src/search/local-embedder.ts'
import { buildToolIndex, type SearchableTool } from '../../src/tools/runtime/search/tool-index.ts'
import { openContender, type Section } from '../bench-context.ts'
import { callTool } from '../client.ts'
import { median } from '../interleave.ts'
import { msText } from '../table.ts'
import { loadNeeds, shippedTools } from '../tool-needs.ts'

const manyTools = 10_000
const goals = { firstMs: 1_000, laterMs: 15 } as const
const { signal } = new AbortController()

/** The catalogue over and over, as if other servers had nearly the same tools: each copy with vectors a little different. */
async function manyVectors(): Promise<{ tools: SearchableTool[]; vectors: Map<string, readonly Int8Array[]> }> {
  const own = await shippedTools()
  const tools: SearchableTool[] = []
  const vectors = new Map<string, readonly Int8Array[]>()
  let state = 1
  const nudge = (value: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) | 0
    return Math.max(-127, Math.min(127, value + ((state >>> 16) % 41) - 20))
  }
  for (let number = 0; number < manyTools; number++) {
    const copy = Math.floor(number / own.length)
    const { tool, vectors: known } = own[number % own.length]!
    const name = copy === 0 ? tool.name : `${tool.name}_${copy}`
    tools.push({ ...tool, name, usersSay: copy === 0 ? (tool.usersSay ?? []) : [] })
    vectors.set(name, copy === 0 ? known : known.slice(0, 3).map((vector) => vector.map(nudge)))
  }
  return { tools, vectors }
}

export const toolSearch: Section = {
  name: 'search',
  timeNeededMs: () => 40_000,
  async run(bench) {
    const sentences = loadNeeds('held-out').map(({ query }) => query)
    const firsts: number[] = []
    const later: number[] = []
    for (let start = 0; start < (bench.quick ? 2 : 5); start++) {
      const connection = await openContender(bench, bench.subject)
      try {
        for (const [index, query] of sentences.slice(0, 40).entries()) {
          const started = performance.now()
          await callTool(connection, 'search_tools', { query })
          ;(index === 0 ? firsts : later).push(performance.now() - started)
        }
      } finally {
        await connection.close()
      }
    }
    const report = (what: string, ms: number, goalMs: number, note: string): void =>
      bench.report({
        what,
        inFlight: 1,
        ours: msText(ms),
        peer: `goal ${goalMs} ms`,
        ratio: ms / goalMs,
        target: { atMost: 1 },
        note,
      })
    report('search_tools, first after start', median(firsts), goals.firstMs, 'loads the model')
    report('search_tools, later', median(later), goals.laterMs, 'over stdio, sentences that are all new')

    const { tools, vectors } = await manyVectors()
    const index = buildToolIndex(tools, { vectors })
    const embedder = createLocalEmbedder()
    try {
      const byBoth: number[] = []
      const byWords: number[] = []
      for (const query of [...sentences, ...sentences]) {
        const started = performance.now()
        const [asked] = await embedder.embed([query], signal)
        index.search({ query, queryVector: asked })
        const found = performance.now()
        index.search({ query })
        byBoth.push(found - started)
        byWords.push(performance.now() - found)
      }
      const note = `words alone ${msText(median(byWords))}`
      report('search among 10 000 tools', median(byBoth.slice(sentences.length)), goals.laterMs, note)
    } finally {
      await embedder.close()
    }
  },
}
