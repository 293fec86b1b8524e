import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isLongRun } from '../../test/support/long-run.ts'
import { canonicalJson } from '../kernel/canonical-json.ts'
import { createMemberSpans, scanCanonicalObject } from './canonical-scan.ts'

const spans = createMemberSpans(['a', 'list'])
const scan = (text: string): boolean => scanCanonicalObject(Buffer.from(`\0${text}`, 'utf8'), 1, spans)

function isCanonicalByDefinition(text: string): boolean {
  try {
    return canonicalJson(JSON.parse(text)) === text
  } catch {
    return false
  }
}

const plainKey = fc.string({ unit: fc.constantFrom(...'abcXYZ019_-. '), maxLength: 4 })
const leaf = fc.oneof(
  fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (Object.is(value, -0) ? 0 : value)),
  fc.maxSafeInteger(),
  fc.constantFrom(null, true, false, 0, 1e21, 1e-7, 5e-324, 123456789012345, 1234567890123456),
)
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof({ depthSize: 'small' }, leaf, fc.array(tie('tree')), fc.dictionary(plainKey, tie('tree'))),
}))
const object = fc.dictionary(plainKey, tree)

describe('scanCanonicalObject', () => {
  it('says yes to canonical objects with plain keys', () => {
    fc.assert(
      fc.property(object, (value) => {
        expect(scan(canonicalJson(value))).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })

  it('never says yes to a text that is not canonical', () => {
    const piece = fc.constantFrom(
      ...'{}[]",:\\ \n0123456789-+.eEuabtrfnl',
      'true',
      'null',
      '\\u00',
      '\\ud8',
      '"a":',
      '\u007f',
    )
    const mutated = fc
      .tuple(object, fc.array(fc.tuple(fc.nat(), fc.nat(3), piece), { minLength: 1, maxLength: 3 }))
      .map(([value, edits]) =>
        edits.reduce((text, [where, cut, insert]) => {
          const at = where % (text.length + 1)
          return text.slice(0, at) + insert + text.slice(at + cut)
        }, canonicalJson(value)),
      )
      .filter((text) => text.isWellFormed())
    const soup = fc.array(piece, { maxLength: 12 }).map((pieces) => `{${pieces.join('')}}`)
    const numbers = fc.string({ unit: fc.constantFrom(...'0129-+.eE'), maxLength: 7 }).map((text) => `{"a":${text}}`)
    const escapes = fc
      .string({ unit: fc.constantFrom(...'\\u019abdfF"/'), maxLength: 9 })
      .map((text) => `{"a":"${text}"}`)
    fc.assert(
      fc.property(fc.oneof(mutated, soup, numbers, escapes), (text) => {
        if (scan(text)) expect(isCanonicalByDefinition(text)).toBe(true)
      }),
      { numRuns: isLongRun ? 6_000 : 1_500 },
    )
  })

  it.each([
    '',
    '{',
    '[]',
    '5',
    '{}x',
    '{} ',
    ' {}',
    '{"a":1,}',
    '{,"a":1}',
    '{"a"}',
    '{"a":}',
    '{"a":1 }',
    '{"b":1,"a":1}',
    '{"a":1,"a":1}',
    '{"ab":1,"a":1}',
    '{"a":01}',
    '{"a":-}',
    '{"a":e}',
    '{"a":.}',
    '{"a":+}',
    '{"a":-0}',
    '{"a":-01}',
    '{"a":1.0}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":1e3}',
    '{"a":1E3}',
    '{"a":+1}',
    '{"a":12345678901234567890}',
    '{"a":1e999}',
    '{"a":tru}',
    '{"a":nulll}',
    '{"a":undefined}',
    '{"a":"',
    '{"a":"\\',
    '{"a":"\\u',
    '{"a":"\\/"}',
    '{"a":"\\u0041"}',
    '{"a":"\\u0009"}',
    '{"a":"\\u001F"}',
    '{"a":"\\ud800"}',
    '{"a":"\t"}',
    '{"a":[1,]}',
    '{"a":[,1]}',
    '{"a":[1 ,2]}',
    '{"a":[}',
  ])('does not say yes to %s', (text) => {
    expect(scan(text)).toBe(false)
    expect(isCanonicalByDefinition(text) && text.startsWith('{')).toBe(false)
  })

  it('leaves to others what it does not follow', () => {
    expect(scan('{"é":1}')).toBe(false)
    expect(scan('{"\\n":1}')).toBe(false)
    expect(scan(`{"a":${'['.repeat(100)}${']'.repeat(100)}}`)).toBe(false)
  })

  it('says where the wanted members of the outermost object are', () => {
    const text = '{"a":{"list":1},"b":2,"list":[3,"x"]}'
    const bytes = Buffer.from(`\0${text}`)
    expect(scanCanonicalObject(bytes, 1, spans)).toBe(true)
    const found = [0, 1].map((index) => bytes.toString('utf8', spans.starts[index], spans.ends[index]))
    expect(found).toEqual(['{"list":1}', '[3,"x"]'])
    expect(scan('{"b":2}')).toBe(true)
    expect([...spans.starts]).toEqual([-1, -1])
  })
})
