import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadCatalogue } from '../../../../bench/recall.ts'
import { AppError } from '../../../contract/app-error.ts'
import type { ToolSearchRequest } from './search-request.ts'
import { buildToolIndex, type ToolSearchAnswer } from './tool-index.ts'

const tools = loadCatalogue()
const index = buildToolIndex(tools)
const shuffled = buildToolIndex([...tools].reverse())
const modes = fc.constantFrom('keyword' as const, 'regex' as const)
const text = fc.oneof(
  fc.string({ maxLength: 210 }),
  fc.string({ unit: 'grapheme', maxLength: 60 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: fc.constantFrom(...'()[]{}*+?|^$\\.,0129ab-:=!<>P '), maxLength: 40 }),
  fc.mixedCase(fc.constantFrom('create task', 'fs.read', 'delte knowlege', 'ファイルを読む')),
)

function attempt(request: ToolSearchRequest): ToolSearchAnswer | string {
  try {
    return index.search(request)
  } catch (error) {
    if (error instanceof AppError) return error.message
    throw error
  }
}

describe('search', () => {
  it('answers or refuses with an AppError, whatever the query', () => {
    fc.assert(
      fc.property(text, modes, fc.integer({ min: 1, max: 20 }), (query, mode, limit) => {
        const answer = attempt({ query, mode, limit })
        if (typeof answer === 'string') return
        expect(answer.total).toBe(answer.tools.length)
        expect(answer.total).toBe(Math.min(limit, answer.matchCount))
        expect(answer.truncated).toBe(answer.matchCount > answer.total)
        expect(answer.hint).not.toBe('')
        if (answer.truncated || answer.total === 0) expect(answer.hint).not.toBeNull()
      }),
      { numRuns: 400 },
    )
  })

  it('gives the same answer again, and from an index built in another order', () => {
    fc.assert(
      fc.property(text, modes, (query, mode) => {
        const first = attempt({ query, mode })
        expect(attempt({ query, mode })).toEqual(first)
        if (typeof first !== 'string') expect(shuffled.search({ query, mode })).toEqual(first)
      }),
      { numRuns: 150 },
    )
  })

  it('never returns a tool outside the visible set', () => {
    fc.assert(
      fc.property(text, modes, fc.integer({ min: 2, max: 9 }), (query, mode, divisor) => {
        const isVisible = (name: string): boolean => name.length % divisor === 0
        const answer = attempt({ query, mode, limit: 20, isVisible })
        if (typeof answer !== 'string') for (const found of answer.tools) expect(isVisible(found.toolName)).toBe(true)
      }),
      { numRuns: 150 },
    )
  })

  // A back-tracking matcher would not come back from the first of these before the test runner gives up.
  it.each([
    '^(([a-z_.])+)+\\d$',
    '(a|a)*(a|a)*(a|a)*(a|a)*(a|a)*(a|a)*(a|a)*(a|a)*\\d\\d\\d',
    '(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*!!!',
    `${'(.*)'.repeat(48)}\\d`,
    '(x+x+)+y',
    '\\pL{1000}'.repeat(22),
    '.{1000}'.repeat(28),
    '(?:.?){1000}'.repeat(15),
    '(((((.{9}){9}){9}){9}){9}){9}',
    `${'('.repeat(99)}a${')*'.repeat(50)}`,
    '[^x]'.repeat(50),
  ])('ends for the hostile pattern %s', (query) => {
    attempt({ query, mode: 'regex', limit: 20 })
  })
})
