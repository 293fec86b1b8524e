import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../kernel/canonical-json.ts'
import { isCanonicalText } from './canonical-record.ts'

/** The definition: the text is what the canonical writer makes of its value. */
function isCanonicalByDefinition(text: string): boolean {
  try {
    return canonicalJson(JSON.parse(text)) === text
  } catch {
    return false
  }
}

const check = (text: string): boolean => isCanonicalText(text, JSON.parse(text))

describe('isCanonicalText', () => {
  it('agrees with the definition on written values, canonical or not', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 1), (value, indent) => {
        for (const text of [canonicalJson(value), JSON.stringify(value, null, indent)]) {
          expect(check(text)).toBe(isCanonicalByDefinition(text))
        }
        expect(check(canonicalJson(value))).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  it('agrees with the definition on objects whose keys are hard to order', () => {
    const key = fc.constantFrom(
      '1',
      '10',
      '9',
      '02',
      'a',
      'A',
      'é',
      '\u{1f600}',
      '\ufb33',
      '__proto__',
      '',
      'constructor',
    )
    fc.assert(
      fc.property(fc.uniqueArray(key, { maxLength: 8 }), fc.boolean(), (keys, isSorted) => {
        const ordered = isSorted ? [...keys].sort() : keys
        const text = `{${ordered.map((name) => `${JSON.stringify(name)}:{"b":1}`).join(',')}}`
        expect(check(text)).toBe(isCanonicalByDefinition(text))
        if (isSorted) expect(check(text)).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  it.each([
    ['{"a":1,"b":[{"c":null}]}', true],
    ['{"10":1,"9":2}', true],
    ['{"9":2,"10":1}', false],
    ['{"b":1,"a":2}', false],
    ['[{"b":1,"a":2}]', false],
    ['{"a":1,"a":2}', false],
    ['{"a":1.0}', false],
    ['{"a":1e2}', false],
    ['{"a":-0}', false],
    ['{"a":1e400}', false],
    ['{"a":1e+21}', true],
    ['"\\u00e9"', false],
    ['"\\/"', false],
    ['"\\u001f"', true],
    ['"\\u001F"', false],
    ['"\\ud800"', false],
    ['"\\\\ud800"', true],
    ['"\u007f\u2028"', true],
    [' {}', false],
    ['{}\n', false],
  ])('%s is canonical: %s', (text, expected) => {
    expect(check(text)).toBe(expected)
    expect(isCanonicalByDefinition(text)).toBe(expected)
  })
})
