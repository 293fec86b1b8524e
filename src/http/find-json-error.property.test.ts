import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findJsonError } from './find-json-error.ts'

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const jsonText = fc.json({ maxDepth: 4 })
/** JSON with a piece replaced: mostly wrong, sometimes right. */
const almostJson = fc
  .tuple(jsonText, fc.nat(), fc.nat(3), fc.stringMatching(/^[\]["{},:0-9.eE+\-\\u tfn]{0,3}$/))
  .map(([text, at, removed, put]) => {
    const start = at % (text.length + 1)
    return text.slice(0, start) + put + text.slice(start + removed)
  })

describe('findJsonError', () => {
  it('finds an error exactly in what JSON.parse refuses', () => {
    fc.assert(
      fc.property(fc.oneof(jsonText, almostJson, fc.string()), (text) => {
        expect(findJsonError(text) === undefined).toBe(isJson(text))
      }),
      { numRuns: 2_000 },
    )
  })

  it('calls a place wrong only if every continuation from there is', () => {
    fc.assert(
      fc.property(almostJson, (text) => {
        const position = findJsonError(text)
        fc.pre(position !== undefined)
        const before = text.slice(0, position)
        expect(findJsonError(before) ?? before.length).toBe(before.length)
        if (position! < text.length) expect(findJsonError(text.slice(0, position! + 1))).toBe(position)
      }),
      { numRuns: 2_000 },
    )
  })

  it.each([
    ['', 0],
    ['{"a":1,}', 7],
    ['{"a" 1}', 5],
    ['[1 2]', 3],
    ['{"a":tru}', 8],
    ['"a\nb"', 2],
    ['01', 1],
    ['{} x', 3],
    ['{"a":"unterminated', 18],
    ['[}', 1],
  ])('points into %j at %i', (text, position) => {
    expect(findJsonError(text)).toBe(position)
  })

  it('reads a body that is all brackets without recursion', () => {
    expect(findJsonError('['.repeat(1_000_000))).toBe(1_000_000)
  })
})
