import { describe, expect, it } from 'vitest'
import { exceededBound } from './json-bounds.ts'

const bounds = { depthMax: 64, valuesMax: 1_000, membersMax: 100 }
const padding = `"${'x'.repeat(20_000)}"`
const nested = (levels: number): string => `${'['.repeat(levels)}${padding}${']'.repeat(levels)}`
const named = (members: number): string => `[${padding},{${Array.from({ length: members }, (_, at) => `"k${at}":1`)}}]`
const wide = (values: number): string => `[${padding}${',1'.repeat(values - 2)}]`

describe('the bounds of a JSON text', () => {
  it('are kept to the level, to the value and to the name', () => {
    expect(exceededBound(nested(64), bounds)).toBeUndefined()
    expect(exceededBound(nested(65), bounds)).toBe('depth')
    expect(exceededBound(wide(1_001), bounds)).toBeUndefined()
    expect(exceededBound(wide(1_003), bounds)).toBe('values')
    expect(exceededBound(named(100), bounds)).toBeUndefined()
    expect(exceededBound(named(101), bounds)).toBe('members')
  })

  it('do not count what is in a string, whatever is escaped in it', () => {
    for (const text of ['['.repeat(20_000), '\\"['.repeat(10_000), '\\', ','.repeat(20_000), ':'.repeat(20_000)]) {
      expect(exceededBound(JSON.stringify([text, padding]), bounds)).toBeUndefined()
    }
    expect(exceededBound(`["\\\\", ${nested(70)}]`, bounds)).toBe('depth')
  })

  it('leave what is not JSON, and what is small, to the parser', () => {
    expect(exceededBound(`["${'['.repeat(20_000)}`, bounds)).toBeUndefined()
    expect(exceededBound('['.repeat(100), bounds)).toBeUndefined()
  })
})
