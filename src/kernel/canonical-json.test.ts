import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson, NotCanonicalError } from './canonical-json.ts'

describe('canonical JSON', () => {
  it('is what RFC 8785 shows for its own example', () => {
    const example = {
      numbers: [Number('333333333.33333329'), 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
      string: '\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\"/',
      literals: [null, true, false],
    }
    expect(canonicalJson(example)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    )
  })

  it('sorts keys by UTF-16 code units, as RFC 8785 shows', () => {
    const keys = { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\ud83d\ude00': 5, '\u0080': 6, '\u00f6': 7 }
    expect([...canonicalJson(keys).matchAll(/:(\d)/g)].map((match) => Number(match[1]))).toEqual([2, 4, 6, 7, 1, 5, 3])
  })

  it.each([
    ['-0', -0, '0'],
    ['the largest safe integer', Number.MAX_SAFE_INTEGER, '9007199254740991'],
    ['the smallest number', Number.MIN_VALUE, '5e-324'],
    ['an undefined member', { a: undefined, b: 1 }, '{"b":1}'],
    ['an undefined item', [undefined], '[null]'],
  ])('writes %s', (_what, value, text) => expect(canonicalJson(value)).toBe(text))

  it.each([
    ['a lone surrogate', '\ud800'],
    ['a lone surrogate in a key', { '\udc00': 1 }],
    ['NaN', Number.NaN],
    ['Infinity', [Number.POSITIVE_INFINITY]],
    ['a bigint', 1n],
  ])('refuses %s', (_what, value) => expect(() => canonicalJson(value)).toThrow(NotCanonicalError))

  it('is the same for plain and for strange keys in any order', () => {
    const keys = fc.uniqueArray(fc.constantFrom('b', 'a', 'a_1', '9', '10', '__proto__', 'toJSON', 'B', 'ä', ''))
    const members = fc.oneof(fc.jsonValue(), fc.constant({ z: 1, y: [{ b: 1, a: 2 }] }))
    fc.assert(
      fc.property(keys, members, (names, member) => {
        const value = Object.fromEntries(names.map((name) => [name, member]))
        const inner = canonicalJson(member)
        const expected = names.toSorted().map((name) => `${JSON.stringify(name)}:${inner}`)
        expect(canonicalJson(value)).toBe(`{${expected.join()}}`)
      }),
    )
  })

  it('says the same value whatever the order of members, and can be read back', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), (value) => {
        const text = canonicalJson(value)
        const reversed = Object.fromEntries(Object.entries(value).reverse())
        expect(canonicalJson(reversed)).toBe(text)
        expect(canonicalJson(JSON.parse(text))).toBe(text)
      }),
    )
  })
})
