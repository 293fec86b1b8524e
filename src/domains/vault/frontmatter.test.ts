import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { bodyStart, deleteField, type Fields, readFrontmatter, setField } from './frontmatter.ts'

const fieldsOf = (text: string): Fields => {
  const read = readFrontmatter(text)
  if (read.kind !== 'fields') throw new Error(`no fields in ${JSON.stringify(text)}`)
  return read.fields
}

describe('front matter', () => {
  it('is what stands between two lines of dashes at the very beginning', () => {
    expect(fieldsOf('---\na: 1\nb: [x, y]\n---\ntext')).toEqual({ a: 1, b: ['x', 'y'] })
    expect(fieldsOf('\uFEFF---\r\na: 1\r\n---\r\ntext')).toEqual({ a: 1 })
    expect(fieldsOf('---\n---\n')).toEqual({})
    expect(fieldsOf('---\n# only a comment\n---')).toEqual({})
    for (const none of ['', 'text', '\n---\na: 1\n---\n', '---\na: 1\n', '----\na: 1\n----\n', '--- x\na: 1\n---\n']) {
      expect(readFrontmatter(none), none).toEqual({ kind: 'none' })
    }
  })

  it('that is not a list of fields is broken, with a reason that quotes nothing of it', () => {
    for (const yaml of [
      'secret words',
      '- secret',
      'a: [secret',
      'a: 1\na: 2',
      'a:\n\tb: secret',
      '*none',
      'a: &x [*x]',
    ]) {
      const read = readFrontmatter(`---\n${yaml}\n---\ntext`)
      expect(read, yaml).toMatchObject({ kind: 'broken' })
      expect(JSON.stringify(read)).not.toContain('secret')
    }
  })

  it('of hostile make is refused in bounded time', () => {
    const bomb = [
      'a: &a [x,x,x,x,x,x,x,x,x]',
      ...'bcdefgh'.split('').map((key, index) => {
        const before = 'abcdefgh'[index]
        return `${key}: &${key} [${Array(9).fill(`*${before}`).join()}]`
      }),
    ].join('\n')
    const cases = [bomb, '['.repeat(60_000), '- '.repeat(30_000), '{a: '.repeat(15_000), `a: ${'x'.repeat(70_000)}`]
    cases.push(`x: &x [${'*x,'.repeat(15_000)}]`, `a: "${'\\q'.repeat(30_000)}"`, '--- a\n'.repeat(9_000))
    for (const yaml of cases) expect(readFrontmatter(`---\n${yaml}\n---\n`).kind).toBe('broken')
    const keys = Array.from({ length: 6_000 }, (_, index) => `k${index}:`).join('\n')
    expect(Object.keys(fieldsOf(`---\n${keys}\n---\n`))).toHaveLength(6_000)
    expect(fieldsOf('---\na: &x [1, .inf]\nb: {c: *x}\n---\n')).toEqual({ a: [1, null], b: { c: [1, null] } })
    expect(limits.vaultFrontmatterCharsMax).toBeLessThan(70_000)
  })

  it('keeps fields with dangerous names as data', () => {
    const fields = fieldsOf('---\n__proto__: {polluted: true}\nconstructor: 1\n---\n')
    expect(Object.keys(fields)).toEqual(['__proto__', 'constructor'])
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('setting a field', () => {
  const note = [
    '---',
    '# about this note',
    'title:   Plan   # working title',
    'tags:',
    '    - one',
    "    - 'two'  # quoted",
    '',
    '# numbers',
    'count: 0x10',
    'nested: {a: 1,   b: [x]}',
    'text: |',
    '  first',
    '  second',
    'empty:',
    '---',
    'Body  with --- dashes',
    '---',
    '',
  ].join('\n')

  it('changes that field and not a byte besides', () => {
    const cases: [string, Json, string, string][] = [
      ['title', 'New: one', 'title:   Plan   # working title', 'title: "New: one"   # working title'],
      ['count', 17, 'count: 0x10', 'count: 17'],
      ['nested', null, 'nested: {a: 1,   b: [x]}', 'nested: null'],
      ['empty', [1, 'x'], 'empty:', 'empty:\n  - 1\n  - x'],
      ['text', 'two\nlines', 'text: |\n  first\n  second', 'text: "two\\nlines"'],
      ['tags', ['a'], "tags:\n    - one\n    - 'two'  # quoted", 'tags:\n  - a'],
    ]
    for (const [key, value, before, after] of cases) {
      expect(note).toContain(before)
      expect(setField(note, key, value), key).toBe(note.replace(before, after))
    }
  })

  it('adds a field at the end of the block, and a block where there is none', () => {
    expect(setField(note, 'new', 'yes')).toBe(note.replace('empty:\n---', 'empty:\nnew: "yes"\n---'))
    expect(setField('text', 'a', 1)).toBe('---\na: 1\n---\ntext')
    expect(setField('', 'a', 1)).toBe('---\na: 1\n---\n')
    expect(setField('one\r\ntwo', 'a', [1])).toBe('---\r\na:\r\n  - 1\r\n---\r\none\r\ntwo')
    expect(setField('\uFEFFtext', 'a', 1)).toBe('\uFEFF---\na: 1\n---\ntext')
    expect(setField('---\nnot closed', 'a', 1)).toBe('---\na: 1\n---\n---\nnot closed')
    expect(setField('---\n# comment\n---\nx', 'a', 1)).toBe('---\n# comment\na: 1\n---\nx')
  })

  it('keeps the meaning where it cannot keep the spelling', () => {
    const flow = setField('---\n{a: 1, b: 2}\n---\nx', 'a', 3)
    expect([fieldsOf(flow), flow.endsWith('---\nx')]).toEqual([{ a: 3, b: 2 }, true])
    const anchored = '---\na: &x [1]\nb: *x\n---\n'
    expect(fieldsOf(setField(anchored, 'b', 2))).toEqual({ a: [1], b: 2 })
    expect(() => setField(anchored, 'a', 2)).toThrow(expect.objectContaining({ code: 'ERR_FRONTMATTER_INVALID' }))
  })

  it('refuses a block that does not parse and leaves it alone', () => {
    for (const yaml of ['a: [1', 'just words', 'a: 1\na: 2']) {
      const broken = `---\n${yaml}\n---\ntext`
      const refusal = expect.objectContaining({ code: 'ERR_FRONTMATTER_INVALID' })
      expect(() => setField(broken, 'k', 1)).toThrow(refusal)
      expect(() => deleteField(broken, 'k')).toThrow(refusal)
    }
  })
})

describe('deleting a field', () => {
  it('takes its lines, and the block with the last', () => {
    expect(deleteField('---\na: 1\nb: # comment\n  - x\n# on c\nc: 3\n---\nx', 'b')).toBe(
      '---\na: 1\n# on c\nc: 3\n---\nx',
    )
    expect(deleteField('---\r\na: 1\r\nb: 2\r\n---\r\nx', 'a')).toBe('---\r\nb: 2\r\n---\r\nx')
    expect(deleteField('---\na: 1\n---\nx', 'a')).toBe('x')
    expect(deleteField('\uFEFF---\na: 1\n---\nx', 'a')).toBe('\uFEFFx')
    expect(deleteField('---\n# comment\na: 1\n---\nx', 'a')).toBe('---\n# comment\n---\nx')
    expect(deleteField('---\n{a: 1}\n---\nx', 'a')).toBe('---\n{}\n---\nx')
    expect([deleteField('---\na: 1\n---\n', 'b'), deleteField('text', 'a')]).toEqual([undefined, undefined])
  })
})

describe('for all fields and texts', () => {
  const key = fc
    .oneof(
      fc.stringMatching(/^[a-zA-Z_][\w -]{0,10}\w$/),
      fc
        .string({ minLength: 1, maxLength: 8, unit: 'grapheme' })
        .filter((text) => text.trim() !== '' && !/[\p{Cc}]/u.test(text)),
      fc.constantFrom(
        'yes',
        'null',
        '1',
        '- x',
        '#',
        'a: b',
        '"',
        "'",
        '---',
        '? x',
        '&a',
        '*a',
        '!t',
        '{',
        '[',
        '|',
        '%',
      ),
    )
    .filter((text) => text !== '__proto__')
  const value = fc.jsonValue({ maxDepth: 3, depthSize: 'small' }) as fc.Arbitrary<Json>
  const fields = fc.array(fc.tuple(key, value), { maxLength: 5 })
  const body = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('---\n', 'a\n---\nb: 1\n---\n', '\n\n# x\n'))
  const newline = fc.constantFrom('\n', '\r\n')
  const normal = (json: Json): Json => JSON.parse(JSON.stringify(json)) as Json

  it('what is set is found, nothing else changes, and deleting it gives the note back', () => {
    const property = fc.property(fields, key, value, body, newline, (before, name, wanted, text, eol) => {
      let note = `${eol}${text}`
      for (const [one, content] of before) note = setField(note, one, content)
      const start = readFrontmatter(note).kind === 'fields' ? fieldsOf(note) : {}
      const changed = setField(note, name, wanted)
      expect(fieldsOf(changed)).toEqual({ ...start, [name]: normal(wanted) })
      expect(changed.slice(bodyStart(changed))).toBe(`${eol}${text}`)
      expect(setField(changed, name, wanted)).toBe(changed)
      if (!Object.hasOwn(start, name)) expect(deleteField(changed, name)).toBe(note)
    })
    fc.assert(property, { numRuns: 120 })
  })

  it('no text makes it fail otherwise than with a reason', () => {
    const yaml = fc.array(
      fc.constantFrom(
        'a: 1',
        '- x',
        '{',
        '}',
        '[',
        ']',
        '&a',
        '*a',
        '"',
        '|',
        '>',
        '#',
        '---',
        '...',
        ' ',
        '\t',
        '? ',
        '!!x',
        '%YAML 1.2',
      ),
      { maxLength: 12 },
    )
    const property = fc.property(yaml, fc.constantFrom('\n', ' ', ''), body, (parts, joint, text) => {
      const note = `---\n${parts.join(joint)}\n---\n${text}`
      try {
        const changed = setField(note, 'k', 1)
        expect(fieldsOf(changed)['k']).toBe(1)
      } catch (error) {
        expect(error).toMatchObject({ code: 'ERR_FRONTMATTER_INVALID' })
      }
    })
    fc.assert(property, { numRuns: 500 })
  })
})
