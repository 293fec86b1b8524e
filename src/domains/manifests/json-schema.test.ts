import { describe, expect, it } from 'vitest'
import { compileJsonSchema } from './json-schema.ts'

describe('a JSON Schema of an untrusted party', () => {
  const checkOf = (schema: unknown) => {
    const compiled = compileJsonSchema(schema)
    if (!compiled.ok) throw new Error(compiled.reason)
    return compiled.check
  }

  it('has patterns in linear time, each its own', () => {
    const check = checkOf({ properties: { a: { pattern: '^(a+)+$' }, b: { pattern: '^b$' } } })
    expect(check({ a: `${'a'.repeat(50_000)}!`, b: 'b' })).toHaveLength(1)
    expect(check({ a: 'aa', b: 'b' })).toEqual([])
    expect(check({ a: 'aa', b: 'a' })).toHaveLength(1)
  })

  it('is cut off when its references multiply', () => {
    const definitions: Record<string, unknown> = { d0: { type: 'string' } }
    for (let level = 1; level < 60; level++) {
      definitions[`d${level}`] = {
        allOf: [{ $ref: `#/definitions/d${level - 1}` }, { $ref: `#/definitions/d${level - 1}` }],
      }
    }
    const compiled = compileJsonSchema({ definitions, $ref: '#/definitions/d59' })
    const problems = compiled.ok ? compiled.check('x') : [compiled.reason]
    expect(problems[0]).toMatch(/takes too long/)
  })

  it('is refused when it is too large, with what its references lead to', () => {
    const properties = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`p${index}`, { minLength: 1 }]))
    const definitions = { a: { properties } }
    expect(compileJsonSchema({ definitions, $ref: '#/definitions/a' }).ok).toBe(true)
    expect(compileJsonSchema({ definitions, allOf: Array(60).fill({ $ref: '#/definitions/a' }) }).ok).toBe(true)
    for (const spellings of [
      ['#/definitions/a', '#/definitions/%61', '#/%64efinitions/a', '#/definitions/a/properties', '#'],
      ['#one', 'two', 'three#/definitions/a', 'urn:four'],
    ]) {
      const compiled = compileJsonSchema({ definitions, allOf: spellings.map(($ref) => ({ $ref })) })
      expect(compiled).toMatchObject({ ok: false, reason: expect.stringContaining('at most 3000 values in all') })
    }
    const patterns = Array.from({ length: 140 }, (_, index) => `^(?:a|b){200}${index}$`)
    const byName = Object.fromEntries(patterns.map((pattern) => [pattern, true]))
    expect(compileJsonSchema({ patternProperties: byName })).toMatchObject({ ok: false })
    expect(compileJsonSchema({ allOf: patterns.map((pattern) => ({ pattern })) })).toMatchObject({ ok: false })
  })

  it('is cut off when its references multiply with the value', () => {
    let value: unknown = 1
    for (let level = 0; level < 40; level++) value = [value]
    const check = checkOf({ allOf: [{ items: { $ref: '#' } }, { items: { $ref: '#' } }] })
    expect(check(value)).toEqual(['the value cannot be checked: it takes too long'])
    expect(check([[1]])).toEqual([])
  })

  it('reaches nothing outside itself', () => {
    expect(compileJsonSchema({ $ref: 'https://example.test/other.json' }).ok).toBe(false)
  })

  it('follows either dialect', () => {
    const tuple = { $schema: 'https://json-schema.org/draft/2020-12/schema', prefixItems: [{ type: 'string' }] }
    expect(checkOf(tuple)([1])).toHaveLength(1)
    expect(checkOf({ type: 'string', format: 'date' })('yesterday')).toHaveLength(1)
  })
})
