import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseExpression } from './expressions.ts'
import { parseTemplate, renderTemplate } from './templates.ts'

const context = {
  input: { commits: 'a "quoted" <b> & c', list: [1, 2, 3], empty: [] },
  name: 'x',
  text: '  Hello\nworld ',
  TEST: { output: { 'unit-tests': 'green' } },
  score: 0.8,
  rows: [{ id: 1 }, { id: 2 }],
}

describe('a template', () => {
  it.each([
    ['{{input.commits}}', 'a "quoted" <b> & c'],
    ['{{{input.commits}}}', 'a "quoted" <b> & c'],
    ['{{{json input.commits}}}', '"a \\"quoted\\" <b> & c"'],
    ['{{input.list}}', '[1,2,3]'],
    ['{{TEST.output.unit-tests}}', 'green'],
    ['{{missing}}{{missing.deep}}{{input.commits.x}}', ''],
    ['{{default missing "d"}}{{default name "d"}}', 'dx'],
    [
      '{{length input.list}}{{upper name}}{{lower "AB"}}{{trim text}}{{first_line text}}{{{keys input}}}',
      '3XabHello\nworld  Hello["commits","list","empty"]',
    ],
    ['{{#each rows}}{{@index}}={{id}}{{#unless @last}},{{/unless}}{{/each}}', '0=1,1=2'],
    ['{{#each rows as |row|}}{{row.id}}{{../name}}{{/each}}', '1x2x'],
    ['{{#if (gt score 0.5)}}yes{{else}}no{{/if}}{{#if input.empty}}yes{{else if name}}named{{/if}}', 'yesnamed'],
    ['{{#with input}}{{commits}}{{/with}}', 'a "quoted" <b> & c'],
    ['{{input.list.[1]}}', '2'],
    ['{"a":{{{json name}}}}', '{"a":"x"}'],
    ['{"a":{"b":{{json name}}}}', '{"a":{"b":"x"}}'],
    ['{{{{name}}}}', '{x}'],
    ['{{default missing "}}"}}', '}}'],
    ['{{!-- a }} b --}}c{{! d }}e', 'ce'],
    ['a { b } {{name}} } {', 'a { b } x } {'],
    ['no template', 'no template'],
  ])('%s', (text, expected) => {
    expect(renderTemplate(text, context)).toBe(expected)
  })

  it('reaches nothing but own members', () => {
    for (const path of [
      'constructor',
      'input.constructor.name',
      '__proto__',
      'input.list.push',
      'name.length',
      'input.__proto__.x',
    ]) {
      expect(renderTemplate(`{{${path}}}`, context)).toBe('')
    }
  })

  it('has a bound on its work and on its text', () => {
    const many = Array.from({ length: 1000 }, (_, index) => index)
    const nested = '{{#each l}}{{#each ../l}}{{#each ../../l}}x{{/each}}{{/each}}{{/each}}'
    expect(() => renderTemplate(nested, { l: many })).toThrow(expect.objectContaining({ code: 'ERR_TOO_LARGE' }))
    const big = 'y'.repeat(100_000)
    expect(() => renderTemplate('{{#each l}}{{../big}}{{/each}}', { l: many, big })).toThrow(
      expect.objectContaining({ code: 'ERR_TOO_LARGE' }),
    )
    expect(() => renderTemplate('{{#each l}}{{length (json ../big)}}{{/each}}', { l: many, big })).toThrow()
  })

  it('says what is wrong with one that is none', () => {
    expect(parseTemplate('{{#each}}').problem).toContain('Parse error')
    expect(parseTemplate('{{shout name}}').problem).toContain('no helper shout')
    expect(parseTemplate('{{#log x}}{{/log}}').problem).toContain('no block #log')
  })

  it('never corrupts JSON', () => {
    fc.assert(
      fc.property(fc.json(), fc.string(), (json, text) => {
        const value = JSON.parse(json)
        const rendered = renderTemplate('{"a": {{json v}}, "b": {{{json t}}}}', { v: value, t: text })
        expect(JSON.parse(rendered)).toEqual({ a: JSON.parse(JSON.stringify(value)), b: text })
      }),
    )
  })

  it('gives a text back as it was, whatever is in it', () => {
    fc.assert(fc.property(fc.string(), (text) => renderTemplate('{{x}}{{{x}}}', { x: text }) === text + text))
  })
})

describe('a custom condition', () => {
  const holds = (text: string) => parseExpression(text).holds(context).holds
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
    'score'.replace('score', 'not score'),
  ])('%s does not', (text) => {
    expect(holds(text)).toBe(false)
  })

  it('says why it could not be evaluated', () => {
    expect(parseExpression('input.nothing == 1').holds(context).problem).toContain('nothing')
  })

  it('refuses what is none, or could take without end', () => {
    expect(parseExpression('a ==').problem).not.toBeNull()
    expect(parseExpression('rows.all(a, rows.all(b, a == b)) == true').problem).toContain('cannot be used inside')
  })

  it('is not held up by a hostile pattern', () => {
    const long = `${'a'.repeat(5_000)}!`
    expect(parseExpression('t.matches("(a+)+$") == true').holds({ t: long }).holds).toBe(false)
  })
})
