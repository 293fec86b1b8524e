import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Context, parseTemplate, renderTemplate } from '../templating/templates.ts'
import { createMeter } from '../templating/work-meter.ts'

const context = {
  input: { commits: 'a "quoted" <b> & c', list: [1, 2, 3], empty: [] },
  name: 'x',
  text: '  Hello\nworld ',
  TEST: { output: { 'unit-tests': 'green' } },
  score: 0.8,
  rows: [{ id: 1 }, { id: 2 }],
}

const render = (text: string, values: Context = context) => renderTemplate(text, values, { field: 'spec.x' })
const refused = expect.objectContaining({
  code: 'ERR_TOO_LARGE',
  details: expect.objectContaining({ field: 'spec.x' }),
})

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
    expect(render(text)).toBe(expected)
  })

  it.each([
    ['{{score + 1}}', '1.8'],
    ['{{rows.[0].id + 1}}', '2'],
    ['{{{nothing + 1}}}', '1'],
    ['{{2 + 3 * 4 - 6 / 2 % 2}}', '13'],
    ['{{(2 + 3) * 4}}', '20'],
    ['{{(length input.list) - 1}}', '2'],
    ['{{#if (score - 0.8)}}a{{else}}b{{/if}}{{#if (length input.list) - 3}}a{{else}}b{{/if}}', 'bb'],
    ['{{default missing " - "}}', ' - '],
    ['{{! a - b }}{{"7" + 1}}', '8'],
  ])('reckons %s', (text, expected) => {
    expect(render(text)).toBe(expected)
  })

  it('refuses to reckon with what is no number, and chains that are none', () => {
    expect(() => render('{{name + 1}}')).toThrow(/spec\.x: a string \+ 1 is not a number/)
    expect(() => render('{{1 / 0}}')).toThrow(/is not a number/)
    expect(parseTemplate('{{default x 0 + 1}}').problem).toMatch(/\(default x 0\) \+ 1/)
    expect(parseTemplate('{{x + }}').problem).toMatch(/must alternate/)
  })

  it('asks about names without a value where it would show one, and not where it tests for one', () => {
    const asked = (text: string) => {
      const names: string[] = []
      renderTemplate(text, context, { field: 'f', missing: ({ name, use }) => void names.push(`${use} ${name}`) })
      return names
    }
    expect(asked('{{a}} {{input.b}} {{upper c}} {{d + 1}}')).toEqual(['text a', 'text input.b', 'text c', 'sum d'])
    expect(asked('{{#if a}}{{/if}}{{#unless (upper b)}}{{/unless}}{{#each c}}{{/each}}{{#d}}{{/d}}')).toEqual([])
    expect(asked('{{default a (upper b)}}{{#if (gt c 1)}}{{/if}}{{#with d}}{{/with}}')).toEqual([])
    expect(asked('{{#each rows}}{{id}}{{nothing}}{{../name}}{{/each}}')).toEqual(['text nothing', 'text nothing'])
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
      expect(render(`{{${path}}}`)).toBe('')
    }
  })

  it('has sections: a loop over a list, else a condition', () => {
    expect(render('{{#rows}}{{id}}{{/rows}}{{#input}}{{commits}}{{/input}}{{^missing}}none{{/missing}}')).toBe(
      '12a "quoted" <b> & cnone',
    )
  })

  it('makes one word of a shell of whatever there is', () => {
    expect(
      render('{{shell v}} {{shell missing}} {{shell input.list}}', { v: "a'; rm -rf / #", input: context.input }),
    ).toBe("'a'\\''; rm -rf / #' '' '[1,2,3]'")
    expect(render('{{shell v}}', { v: 'a\0b' })).toBe("'ab'")
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
        const rendered = render('{"a": {{json v}}, "b": {{{json t}}}}', { v: value, t: text })
        expect(JSON.parse(rendered)).toEqual({ a: JSON.parse(JSON.stringify(value)), b: text })
      }),
    )
  })

  it('gives a text back as it was, whatever is in it', () => {
    fc.assert(fc.property(fc.string(), (text) => render('{{x}}{{{x}}}', { x: text }) === text + text))
  })
})

/** Each of these is a short text over values that a run may have, and would take seconds without a bound. */
describe('a hostile text is refused before it is parsed', () => {
  it.each([
    ['blocks in blocks', '{{#if a}}'.repeat(20_000), 'nested'],
    ['closed ones', `${'{{#if a}}'.repeat(40)}${'{{/if}}'.repeat(40)}`, 'nested'],
    ['sections in sections', '{{#a}}{{^a}}'.repeat(20_000), 'nested'],
    ['one condition after the other', `{{#if a}}${'{{else if a}}'.repeat(20_000)}{{/if}}`, 'nested'],
    ['calls in calls', `{{not ${'(not '.repeat(400)}a${')'.repeat(400)}}}`, 'nested'],
    ['very many', '{{a}}'.repeat(50_000), '5000 expressions'],
    ['one that is very long', `{{and ${'a '.repeat(100_000)}}}`, '4000 characters'],
    ['one that is not closed', `{{"${'{{#if a}}'.repeat(20_000)}`, 'not closed'],
  ])('%s', (_, text, problem) => {
    expect(parseTemplate(text).problem).toContain(problem)
  })

  it('and what people write is not', () => {
    expect(parseTemplate('{{#if a}}x{{else if b}}y{{else}}z{{/if}}'.repeat(1_000)).problem).toBeNull()
    expect(
      parseTemplate('{{~#each a ~}}{{#if (and (eq a b) (not c))}}{{/if}}{{~/each~}}'.repeat(100)).problem,
    ).toBeNull()
  })
})

describe('a hostile template is refused', () => {
  const many = Array.from({ length: 1000 }, (_, index) => index)
  const big = 'y'.repeat(1_000_000)
  const object = { deep: { list: Array.from({ length: 100_000 }, (_, index) => `item ${index}`) } }
  const wide = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`k${index}`, index]))
  const values = { l: many, big, object, wide, number: `${'1'.repeat(1_000_000)}` }
  it.each([
    ['loops in loops', '{{#each l}}{{#each ../l}}{{#each ../../l}}x{{/each}}{{/each}}{{/each}}'],
    ['a large text again and again', '{{#each l}}{{../big}}{{/each}}'],
    ['json of a large value, of which only the length is used', '{{#each l}}{{length (json ../object)}}{{/each}}'],
    ['comparing large values', '{{#each l}}{{#if (eq ../object ../object)}}{{/if}}{{/each}}'],
    ['comparing a large value to a text', '{{#each l}}{{#if (eq ../object "x")}}{{/if}}{{/each}}'],
    ['ordering large texts', '{{#each l}}{{#if (gt ../number ../number)}}{{/if}}{{/each}}'],
    ['the keys of a large object', '{{#each l}}{{length (keys ../wide)}}{{/each}}'],
    ['the length of a large object', '{{#each l}}{{length ../wide}}{{/each}}'],
    ['changing the case of a large text', '{{#each l}}{{length (upper (lower (trim ../big)))}}{{/each}}'],
    ['a large value as a key', '{{#each l}}{{lookup ../wide ../object}}{{/each}}'],
    ['loops over a large object', '{{#each l}}{{#each ../wide}}{{/each}}{{/each}}'],
    ['a path that goes up for ever', `{{#each l}}{{#each ../l}}{{${'../'.repeat(1_300)}a}}{{/each}}{{/each}}`],
    ['quoting a large value', '{{#each l}}{{length (shell ../object)}}{{/each}}'],
    [
      'sections over large lists',
      '{{#l}}{{#l}}{{/l}}{{#object.deep.list}}{{/object.deep.list}}{{/l}}'.replace(
        '{{#l}}{{/l}}',
        '{{#@root.wide}}{{json this}}{{/@root.wide}}',
      ),
    ],
  ])('%s', (_, text) => {
    expect(parseTemplate(text).problem).toBeNull()
    expect(() => render(text, values)).toThrow(refused)
  })

  it('as one of many that share what they may do', () => {
    const meter = createMeter()
    const text = '{{length (json object)}}'
    const all = () => many.map(() => renderTemplate(text, values, { field: 'spec.x', meter }))
    expect(render(text, values)).toMatch(/^\d+$/)
    expect(all).toThrow(refused)
  })
})

it('a refusal depends on text and values alone', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { maxLength: 30 }), fc.integer({ min: 0, max: 20_000 }), (list, units) => {
      const end = () => {
        try {
          const options = { field: 'spec.x', meter: createMeter(units) }
          return renderTemplate(
            '{{#each l}}{{json this}}{{#if (eq this "a")}}{{../l}}{{/if}}{{/each}}',
            { l: list },
            options,
          )
        } catch (error) {
          return (error as Error).message
        }
      }
      expect(end()).toBe(end())
    }),
  )
})
