import { describe, expect, it } from 'vitest'
import {
  baselineSearch,
  loadCatalogue,
  loadQueries,
  measureRecall,
  ourSearch,
  type RecallQuery,
  rankOf,
} from '../../bench/recall.ts'
import { createQueryLanguage } from '../../src/kernel/query-plan.ts'
import { stem } from '../../src/kernel/stem.ts'

const tools = loadCatalogue()
const queries = loadQueries()
const baseline = baselineSearch(tools)
const ours = ourSearch(tools)
const isFound = (rank: number): boolean => rank > 0 && rank <= 8
const ofKind = (kind: string): RecallQuery[] => queries.filter((query) => query.kind === kind)

describe('the recall set', () => {
  it('names only tools of the catalogue, holds back a third, and asks nothing twice', () => {
    const names = new Set(tools.map((tool) => tool.name))
    for (const { query, expected } of queries)
      for (const name of expected) expect(names.has(name), `${query}: ${name}`).toBe(true)
    const heldBack = queries.filter((query) => query.set === 'holdout').length
    expect(queries.length).toBeGreaterThanOrEqual(120)
    expect(heldBack / queries.length).toBeGreaterThan(0.3)
    expect(new Set(queries.map((query) => query.query)).size).toBe(queries.length)
  })
})

describe('search_tools against a plain BM25F', () => {
  it.each(['train', 'holdout'] as const)('finds at least as much at every depth on the %s queries', (set) => {
    const chosen = queries.filter((query) => query.set === set)
    const plain = measureRecall(baseline, chosen)
    const better = measureRecall(ours, chosen)
    expect(better.at8).toBeGreaterThanOrEqual(plain.at8)
    expect(better.at3).toBeGreaterThanOrEqual(plain.at3)
    expect(better.at1).toBeGreaterThanOrEqual(plain.at1)
    expect(better.meanReciprocalRank).toBeGreaterThanOrEqual(plain.meanReciprocalRank)
  })

  it('keeps a level on the queries that nothing was tuned on', () => {
    const { at8, at1 } = measureRecall(
      ours,
      queries.filter((query) => query.set === 'holdout'),
    )
    expect(at8).toBeGreaterThanOrEqual(0.9)
    expect(at1).toBeGreaterThanOrEqual(0.75)
  })

  it.each(['inflection', 'camel', 'foreign', 'misspelt', 'paraphrase'])(
    'finds %s queries that the plain one misses',
    (kind) => {
      const gained = ofKind(kind).filter((query) => !isFound(rankOf(baseline, query)) && isFound(rankOf(ours, query)))
      expect(gained.length).toBeGreaterThan(0)
    },
  )

  it('loses at most one in fifty of the queries that the plain one finds', () => {
    const plain = queries.filter((query) => isFound(rankOf(baseline, query)))
    const lost = plain.filter((query) => !isFound(rankOf(ours, query)))
    expect(lost.length / plain.length, lost.map((query) => query.query).join('; ')).toBeLessThanOrEqual(0.02)
  })

  it.each([
    ['stemming', createQueryLanguage((word) => word)],
    ['synonyms', { ...createQueryLanguage(stem), related: () => new Map<string, number>(), wordsWithin: () => [] }],
    ['correction', { ...createQueryLanguage(stem), corrects: false }],
  ])('owes some answers to %s', (_, language) => {
    const without = ourSearch(tools, language)
    const owed = queries.filter((query) => isFound(rankOf(ours, query)) && !isFound(rankOf(without, query)))
    expect(owed.length).toBeGreaterThan(0)
  })
})
