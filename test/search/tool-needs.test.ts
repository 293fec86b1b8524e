import { describe, expect, it } from 'vitest'
import { measureRecall, type RecallQuery } from '../../bench/recall.ts'
import { loadFewWords, loadNeeds, needSearches } from '../../bench/tool-needs.ts'
import { createLocalEmbedder } from '../../src/search/local-embedder.ts'
import { createPreparedCatalog } from '../../src/tools/runtime/catalog.ts'
import { searchableTools } from '../../src/tools/runtime/create-tool-search.ts'
import { preparedTools } from '../../src/tools/runtime/prepared-tools.ts'
import { toolTexts } from '../../src/tools/runtime/search/tool-texts.ts'
import shipped from '../../src/tools/runtime/search/tool-vectors.json' with { type: 'json' }
import { digestOf, shippedText, vectorsOfTools } from '../../src/tools/runtime/search/tool-vectors.ts'
import usersSay from '../../src/tools/runtime/search/users-say.json' with { type: 'json' }
import { isLongRun } from '../support/long-run.ts'
import { seededRandom } from '../support/seeded-random.ts'

const tools = await searchableTools(createPreparedCatalog(preparedTools().tools, async () => []).tools)
const names = new Set(tools.map(({ name }) => name))
const tuning = loadNeeds('tuning')
const heldOut = loadNeeds('held-out')
const fewWords = await loadFewWords()
const asItself = (query: string, name: string): RecallQuery => ({ kind: 'name', set: 'train', query, expected: [name] })
const titles = Map.groupBy(tools, ({ title }) => title)
/** No other tool has the title, as its title or as its name. */
const isOwnTitle = (title: string): boolean =>
  titles.get(title)!.length === 1 && !names.has(title.toLowerCase().replaceAll(' ', '_'))
const named = tools.flatMap(({ name, safeName, title }) => [
  asItself(name, name),
  asItself(safeName!, name),
  ...(isOwnTitle(title!) ? [asItself(title!, name)] : []),
])
const searches = await needSearches([...tuning, ...heldOut, ...fewWords, ...named])

/** The model is slow: the long run asks it about all. */
const nth = isLongRun ? 1 : 12

const wordsOf = (text: string): string => (text.toLowerCase().match(/[a-z0-9]+/g) ?? []).join(' ')

describe('the sentences', () => {
  it('name tools that search can answer, one to three for each', () => {
    for (const { query, expected } of [...tuning, ...heldOut]) {
      expect(expected.length >= 1 && expected.length <= 3, query).toBe(true)
      for (const name of expected) expect(names, query).toContain(name)
    }
  })

  it('that are held out are many, differ, and occur neither in the tuning set nor in what users say', () => {
    const known = new Set([...tuning.map(({ query }) => query), ...Object.values(usersSay).flat()].map(wordsOf))
    const judged = heldOut.map(({ query }) => wordsOf(query))
    expect(judged.length).toBeGreaterThanOrEqual(120)
    expect(new Set(judged).size).toBe(judged.length)
    expect(judged.filter((sentence) => known.has(sentence))).toEqual([])
  })
})

describe('what users say', () => {
  it('is there for every tool, and for no other', () => {
    expect(Object.keys(usersSay).sort()).toEqual([...names].sort())
  })

  it('is said of one tool, or of two that do the same', () => {
    const saying = Map.groupBy(
      Object.entries(usersSay).flatMap(([tool, phrases]) =>
        phrases.map((phrase) => ({ tool, phrase: wordsOf(phrase) })),
      ),
      ({ phrase }) => phrase,
    )
    for (const [phrase, by] of saying) expect(by.length, phrase).toBeLessThanOrEqual(2)
  })
})

describe('search_tools by meaning and words', () => {
  it('finds what the held-out sentences need', () => {
    const { at1, at3, at8 } = measureRecall(searches.both, heldOut)
    expect(at1).toBeGreaterThanOrEqual(0.65)
    expect(at3).toBeGreaterThanOrEqual(0.85)
    expect(at8).toBeGreaterThanOrEqual(0.95)
  })

  it('finds more than words or meaning alone, in sentences and in few words', () => {
    for (const queries of [heldOut, fewWords]) {
      const both = measureRecall(searches.both, queries)
      for (const alone of [searches['words before'], searches.words, searches.meaning]) {
        const { at3, at8, meanReciprocalRank } = measureRecall(alone, queries)
        expect(both.meanReciprocalRank).toBeGreaterThanOrEqual(meanReciprocalRank)
        expect(both.at3).toBeGreaterThanOrEqual(at3)
        expect(both.at8).toBeGreaterThanOrEqual(at8)
      }
    }
    expect(measureRecall(searches.both, fewWords).at1).toBeGreaterThanOrEqual(0.9)
  })

  it('finds by words alone what it did not before users’ words were written down', () => {
    const { at1, at8 } = measureRecall(searches.words, heldOut)
    const before = measureRecall(searches['words before'], heldOut)
    expect(at1).toBeGreaterThan(before.at1 + 0.1)
    expect(at8).toBeGreaterThan(before.at8 + 0.1)
  })

  it.each(named)('puts first what $query names: $expected', (need) => {
    expect(searches.both(need.query)[0]).toBe(need.expected[0])
  })
})

describe('the vectors that are shipped', () => {
  it('are of the texts that the tools have now', () => {
    const digests = Object.entries(shipped.tools).map(([name, text]) => [name, text.split(' ')[0]])
    expect(digests).toEqual(tools.map((tool) => [tool.name, digestOf(shipped.model, toolTexts(tool))]))
  })

  it(`are those that the model makes of the texts, for every ${nth}th tool`, async () => {
    const random = seededRandom()
    const offset = random.below(nth)
    const sample = tools.filter((_, index) => index % nth === offset)
    const embedder = createLocalEmbedder()
    try {
      const nothing = { ...shipped, tools: {} }
      const made = await vectorsOfTools(sample, embedder, nothing, new AbortController().signal)
      const { model, length, tools: byName } = JSON.parse(shippedText(embedder.model, sample, made)) as typeof shipped
      expect({ model, length }).toEqual({ model: shipped.model, length: shipped.length })
      const differing = Object.entries(byName).filter(([name, text]) => shipped.tools[name as 'vault'] !== text)
      expect(differing.map(([name]) => name)).toEqual([])
      expect(Object.keys(byName), `seed ${random.seed}`).toHaveLength(sample.length)
    } finally {
      await embedder.close()
    }
  })
})
