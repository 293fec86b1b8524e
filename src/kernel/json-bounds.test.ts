import { describe, expect, it } from 'vitest'
import { exceededBound } from './json-bounds.ts'

const bounds = { depthMax: 64, valuesMax: 1_000 }
const padding = `"${'x'.repeat(20_000)}"`
const nested = (levels: number): string => `${'['.repeat(levels)}${padding}${']'.repeat(levels)}`
const wide = (values: number): string => `[${padding}${',1'.repeat(values - 2)}]`

describe('the bounds of a JSON text', () => {
  it('are kept to the level and to the value', () => {
    expect(exceededBound(nested(64), bounds)).toBeUndefined()
    expect(exceededBound(nested(65), bounds)).toBe('depth')
    expect(exceededBound(wide(1_001), bounds)).toBeUndefined()
    expect(exceededBound(wide(1_003), bounds)).toBe('values')
  })

  it('do not count what is in a string, whatever is escaped in it', () => {
    for (const text of ['['.repeat(20_000), '\\"['.repeat(10_000), '\\', ','.repeat(20_000)]) {
      expect(exceededBound(JSON.stringify([text, padding]), bounds)).toBeUndefined()
    }
    expect(exceededBound(`["\\\\", ${nested(70)}]`, bounds)).toBe('depth')
  })

  it('leave what is not JSON, and what is small, to the parser', () => {
    expect(exceededBound(`["${'['.repeat(20_000)}`, bounds)).toBeUndefined()
    expect(exceededBound('['.repeat(100), bounds)).toBeUndefined()
  })
})
