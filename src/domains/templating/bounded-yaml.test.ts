import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isAlias, isMap, parseDocument } from 'yaml'
import { composeYaml, type YamlBounds } from '../templating/bounded-yaml.ts'

const bounds: YamlBounds = { depthMax: 32, valuesMax: 10_000, warnings: 'refused' }
const problemOf = (text: string, changes: Partial<YamlBounds> = {}) => {
  const composed = composeYaml(text, { ...bounds, ...changes })
  return 'problem' in composed ? composed.problem : undefined
}
const documentOf = (text: string) => {
  const composed = composeYaml(text, bounds)
  if ('problem' in composed) throw new Error(`${composed.problem.code} in line ${composed.problem.line}`)
  return composed
}

/** What has an alias of nothing cannot be written. */
const written = (document: object): string => {
  try {
    return String(document)
  } catch {
    return 'nothing'
  }
}

describe('YAML of an untrusted party', () => {
  it('has as many keys as it may, each once', () => {
    const keys = Array.from({ length: 10_000 }, (_, index) => `k${index}: 1`)
    expect(isMap(documentOf(keys.join('\n')).document.contents)).toBe(true)
    expect(problemOf([...keys, 'k7: 2'].join('\n'))).toEqual({ code: 'DUPLICATE_KEY', line: 10_001 })
    expect(problemOf('a: {b: 1, "b": 2}')).toEqual({ code: 'DUPLICATE_KEY', line: 1 })
  })

  it('is refused at its first fault, whatever follows', () => {
    expect(problemOf(`a: 1\nz: "${'\\x'.repeat(100_000)}"`)).toEqual({ code: 'BAD_DQ_ESCAPE', line: 2 })
    expect(problemOf(`a: [${','.repeat(50_000)}]`)).toMatchObject({ code: 'UNEXPECTED_TOKEN' })
    expect(problemOf(']'.repeat(100_000))).toMatchObject({ code: 'UNEXPECTED_TOKEN' })
    expect(problemOf('--- a\n'.repeat(20_000))).toEqual({ code: 'MULTIPLE_DOCS', line: 2 })
  })

  it('has no more tokens than its values need', () => {
    expect(problemOf(`a: [${'1,'.repeat(100_000)}]`)).toMatchObject({ code: 'TOO_MANY_VALUES' })
    expect(problemOf('-\n'.repeat(101), { valuesMax: 10 })).toMatchObject({ code: 'TOO_MANY_VALUES' })
    expect(problemOf('a: {k: &x !!str v, ? b : *x}', { valuesMax: 3 })).toBeUndefined()
  })

  it('is not nested deeper than it may be, however that is written', () => {
    for (const deep of ['[', '{a: ', '- ', '-\t', '? ', ': ', 'a: ', '["]", ', "{']': "]) {
      expect(problemOf(deep.repeat(20_000)), deep).toMatchObject({ code: 'TOO_DEEP' })
    }
    expect(problemOf(Array.from({ length: 400 }, (_, level) => `${' '.repeat(level)}a:`).join('\n'))).toMatchObject({
      code: 'TOO_DEEP',
    })
    expect(problemOf(`a: |\n${' '.repeat(400)}text\nb: {c: ${'[1],'.repeat(1)} d: 2}`)).toBeUndefined()
  })

  it('has no endless runs of empty lines and comments', () => {
    const run = `a:\n  b: |\n    x\n${'\n'.repeat(100_000)}${'   #\n'.repeat(20_000)}c: 1`
    expect(problemOf(run)).toMatchObject({ code: 'TOO_MANY_EMPTY_LINES' })
    expect(problemOf(`a: 1\n${'# comment\n\n'.repeat(500)}b: 2`)).toBeUndefined()
  })

  it('has aliases that are looked up, each the last of its name before it', () => {
    const many = Array.from({ length: 4_000 }, (_, index) => `- &a${index} x\n- *a${index}`).join('\n')
    expect(documentOf(many).targets.size).toBe(4_000)
    const { document, targets } = documentOf('[&x 1, *x, &x 2, *x, *y]')
    const items = (document.contents as unknown as { items: unknown[] }).items
    const values = items.filter(isAlias).map((alias) => (targets.get(alias) as { value?: unknown } | undefined)?.value)
    expect(values).toEqual([1, 2, undefined])
  })

  it('means what the library reads in it, and is refused where the library refuses it', () => {
    const part = fc.constantFrom(
      ...['a: ', 'b: 1\n', '- x\n', '  ', '{', '}', '[', ']', ',', '&a ', '*a', '"', "'", '|\n', '>-\n', '# r\n'],
      ...['\n', '? ', ': ', '!!str ', 'text', '1.5', '\t', '\\x', '%TAG ! x\n', '...\n', '<<: '],
    )
    const property = fc.property(fc.array(part, { maxLength: 14 }), (parts) => {
      const text = parts.join('')
      const theirs = parseDocument(text, { schema: 'core', stringKeys: true, logLevel: 'error' })
      const composed = composeYaml(text, bounds)
      expect('problem' in composed).toBe(theirs.errors.length + theirs.warnings.length > 0)
      if ('document' in composed) expect(written(composed.document)).toBe(written(theirs))
    })
    fc.assert(property, { numRuns: 500 })
  })
})
