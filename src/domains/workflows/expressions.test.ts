import { describe, expect, it } from 'vitest'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Context } from '../templating/templates.ts'
import { parseExpression } from './expressions.ts'

const context = {
  input: { list: [1, 2, 3], empty: [] },
  name: 'x',
  text: '  Hello\nworld ',
  TEST: { output: { 'unit-tests': 'green' } },
  score: 0.8,
  rows: [{ id: 1 }, { id: 2 }],
  at: '2026-01-02T03:04:05Z',
}
const judge = (text: string, values: Context = context) => parseExpression(text).holds(values, { field: 'spec.x' })

describe('a custom condition', () => {
  const holds = (text: string) => judge(text).holds
  it.each([
    'name',
    'input.list',
    'TEST.output.unit-tests',
    '(gt score 0.5)',
    'eq name "x"',
    'length input.list',
    '{{name}}',
    'score > 0.5',
    'score >= 0.8 && name == "x"',
    'size(input.list) == 3',
    'rows[0].id + 1 == 2',
    'rows.exists(r, r.id > 1)',
    'rows.filter(r, r.id > 1).map(r, r.id)[0] == 2',
    'text.contains("world")',
    'name.matches("^x$")',
    '!(score < 0.5)',
    '"x" in [name]',
    'rows.all(a, rows.exists(b, a.id <= b.id))',
    'rows.exists_one(r, r.id == 2)',
    'rows.map(r, r.id > 1, r.id * 10)[0] == 20',
    'has(input.list) && !has(input.nothing)',
    'input.exists(key, key == "empty")',
    'missing == 1 || score > 0.5',
    '!(missing == 1 && score < 0.5)',
    'rows.exists(r, r.nothing == 1 || r.id == 2)',
    'score > 0.5 ? name == "x" : false',
    'cel.bind(n, size(rows), n + n == 4)',
    'type(score) == double && type(name) == string',
    '{"a": {"b": 7}}.a["b"] - 3 == 4',
    '-rows[0].id < 0 && 7 / 2 == 3 && 7.0 / 2.0 == 3.5',
    '"a,b".split(",").join("-") == "a-b" && name.upperAscii() == "X"',
    'timestamp(at) + duration("1h") < timestamp("2026-01-02T05:00:00Z")',
    'timestamp(at).getFullYear() == 2026',
    'int("5") + 1 == 6 && string(5) == "5" && double("1.5") > 1',
    'input == {"list": [1, 2, 3], "empty": []}',
    'name in {"x": 1}',
  ])('%s holds', (text) => {
    expect(parseExpression(text).problem).toBeNull()
    expect(holds(text)).toBe(true)
  })

  it.each([
    'missing',
    'input.empty',
    'missing == 1',
    'score > "a"',
    'score < 0.8',
    'name.matches("^y")',
    'input.nothing.deep > 3',
    'missing == 1 || score < 0.5',
    'rows.all(r, r.id < 2)',
    'rows.all(r, r.nothing == 1)',
    'has(input.nothing.deep)',
    'constructor == 1 || __proto__ == 1',
    'has(input.constructor) || has(input.__proto__)',
    'score'.replace('score', 'not score'),
  ])('%s does not', (text) => {
    expect(holds(text)).toBe(false)
  })

  it('says why it could not be evaluated', () => {
    expect(judge('input.nothing == 1').problem).toContain('nothing')
  })

  it('refuses what is none', () => {
    expect(parseExpression('a ==').problem).not.toBeNull()
    for (const text of ['a.', '!', '"', '(', '(not ']) {
      expect(parseExpression(text.repeat(700)).problem, text).not.toBeNull()
      expect(parseExpression(text.repeat(50_000)).problem).toContain('4000 characters')
    }
    expect(parseExpression('explode(a)').problem).toContain('no function explode')
    expect(parseExpression('matches("a", "b")').problem).toContain('text.matches(pattern)')
  })

  it('is not held up by a hostile pattern', () => {
    const long = `${'a'.repeat(5_000)}!`
    expect(judge('t.matches("(a+)+$") == true', { t: long }).holds).toBe(false)
  })
})

/** Each is a short text over possible values of a run that would take seconds without a bound. */
describe('a hostile condition is refused', () => {
  const list: Json = Array.from({ length: 5_000 }, (_, index) => `item ${index}`)
  const values = {
    list,
    big: 'a'.repeat(1_000_000),
    wanted: `b${'a'.repeat(400_000)}`,
    object: { list: Array.from({ length: 100_000 }, (_, index) => index) },
    wide: Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`k${index}`, index])),
    empties: Array.from({ length: 20_000 }, () => ({})),
    patterns: Array.from({ length: 500 }, (_, index) => `(((a{10}){10}){${(index % 9) + 1}}b?){1}${index}`),
  }
  const doubling = (depth: number, inner: string): string =>
    Array.from({ length: depth }).reduce<string>((text) => `cel.bind(x, x + x, ${text})`, inner)
  it.each([
    ['loops in loops', 'list.all(x, list.all(y, x != y || x == y))'],
    ['loops in loops in loops', 'list.exists(x, list.exists(y, list.exists(z, z == x + y)))'],
    ['a loop in the list of a loop', 'list.map(x, list.map(y, y)).all(l, l.all(z, z != ""))'],
    ['a text that doubles', `cel.bind(x, big, ${doubling(12, 'x.matches("b")')})`],
    ['a list that doubles', `cel.bind(x, object.list, ${doubling(12, 'size(x) == 1')})`],
    [
      'a value that holds itself twice, again and again',
      `cel.bind(x, object.list, ${Array.from({ length: 12 }).reduce<string>((text) => `cel.bind(x, [x, x], ${text})`, 'x == x')})`,
    ],
    ['comparing large values', 'list.all(x, object == object)'],
    ['looking for a text that is made for it', 'big.contains(wanted)'],
    ['splitting by a text that is made for it', 'size(big.split(wanted)) == 2'],
    ['joining with a large text', 'size(list.join(big)) == 1'],
    ['a large value in a list', 'wide in empties'],
    ['a value in a large list, again and again', 'list.all(x, !(x in object.list))'],
    ['patterns over a large text', 'list.all(x, !big.matches("(a?){30}b"))'],
    ['a dear pattern over a large text', 'big.matches("(a?){30}(a|b){30}c$")'],
    ['many patterns', 'patterns.exists(p, "aaa".matches(p))'],
    ['the length of a large text, again and again', 'list.all(x, size(big) > 1)'],
    ['changing the case of a large text, again and again', 'list.all(x, big.upperAscii() != "")'],
    ['errors that are absorbed', 'list.exists(x, list.exists(y, nothing == x))'],
    ['time zones', 'list.all(x, timestamp("2026-01-02T03:04:05Z").getHours("Europe/Berlin") > 30 || true)'],
    ['a helper over large values', '(eq object object)'],
  ])('%s', (name, text) => {
    expect(parseExpression(text).problem).toBeNull()
    const seen = name.startsWith('a helper')
      ? { object: [values.object, values.object, values.big, values.big, values.big].flatMap((one) => [one, one, one]) }
      : values
    expect(() => judge(text, seen as Context)).toThrow(
      expect.objectContaining({
        code: 'ERR_TOO_LARGE',
        message: expect.stringMatching(/^spec\.x: .*Use smaller values/),
      }),
    )
  })

  it('and a long text is no date', () => {
    expect(judge('duration(big) == duration("1s")', values).problem).toContain('128 characters')
  })
})
