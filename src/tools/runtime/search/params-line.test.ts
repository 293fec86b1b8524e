import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { parameterNames, paramsLine, requiredNames } from './params-line.ts'

const line = (
  properties: Record<string, unknown>,
  required: string[] = [],
  more: Record<string, unknown> = {},
): string => paramsLine({ type: 'object', properties, required, ...more })

describe('paramsLine', () => {
  it('is empty for a tool without input', () => {
    expect(paramsLine({ type: 'object', properties: {} })).toBe('')
    expect(paramsLine({})).toBe('')
  })

  it('puts required parameters first, then orders by name, and adds descriptions', () => {
    const properties = {
      zone: { type: 'string' },
      limit: { type: 'integer', description: 'How many\n  to return' },
      id: { type: 'string', description: 'Which one' },
      about: { type: 'boolean' },
    }
    expect(line(properties, ['zone', 'id'])).toBe(
      'id!:string — Which one; zone!:string; about?:boolean; limit?:integer — How many to return',
    )
  })

  it.each([
    [{ type: 'array', items: { type: 'string' } }, 'string[]'],
    [{ type: 'array' }, 'any[]'],
    [{ type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'number' }] } }, '(string|number)[]'],
    [{ type: 'array', items: { enum: ['a|b', 'c'] } }, 'enum("a|b","c")[]'],
    [{ type: ['string', 'null'] }, 'string|null'],
    [{ type: 'string', nullable: true }, 'string|null'],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'string|null'],
    [{ oneOf: [{ const: 'a' }, { const: 'b' }] }, 'enum("a","b")'],
    [{ const: 5 }, 'enum(5)'],
    [{ enum: ['low', 1, null] }, 'enum("low",1,null)'],
    [{ type: 'object', additionalProperties: { type: 'number' } }, 'record<number>'],
    [{ type: 'object' }, 'object'],
    [{ type: 'object', additionalProperties: false }, 'object'],
    [{}, 'any'],
    [{ $ref: '#/$defs/point' }, '{x!:number, y?:number}'],
    [{ type: 'array', items: { $ref: '#/$defs/point' } }, '{x!:number, y?:number}[]'],
    [{ $ref: '#/$defs/missing' }, 'any'],
    [{ $ref: 'https://example.com/schema' }, 'any'],
    [
      { allOf: [{ $ref: '#/$defs/point' }, { properties: { z: { type: 'string' } }, required: ['z'] }] },
      '{x!:number, z!:string, y?:number}',
    ],
  ])('%j is %s', (schema, expected) => {
    const $defs = {
      point: { type: 'object', properties: { x: { type: 'number' }, y: { type: 'number' } }, required: ['x'] },
    }
    expect(line({ value: schema }, [], { $defs })).toBe(`value?:${expected}`)
  })

  it('opens objects one level only, and gives their members no description', () => {
    const inner = { type: 'object', properties: { deep: { type: 'string' } } }
    const properties = {
      outer: {
        type: 'object',
        properties: { inner, name: { type: 'string', description: 'Hidden' } },
        required: ['name'],
      },
    }
    expect(line(properties)).toBe('outer?:{name!:string, inner?:object}')
  })

  it('shows twenty values of an enumeration and counts the rest', () => {
    const values = Array.from({ length: 23 }, (_, index) => index)
    expect(line({ value: { enum: values } })).toBe(`value?:enum(${values.slice(0, 20).join(',')},+3 more)`)
  })

  it('lays the variants of a whole input over each other', () => {
    const schema = {
      oneOf: [
        {
          type: 'object',
          properties: { action: { const: 'start' }, command: { type: 'string' } },
          required: ['action', 'command'],
        },
        {
          type: 'object',
          properties: { action: { const: 'poll' }, job: { type: 'string' } },
          required: ['action', 'job'],
        },
      ],
    }
    expect(parameterNames(schema)).toEqual(['action', 'command', 'job'])
    expect(requiredNames(schema)).toEqual(['action'])
  })

  it('reads what Zod writes', () => {
    const schema = z.toJSONSchema(
      z.object({
        title: z.string().min(1).describe('Short name'),
        priority: z.enum(['low', 'high']).optional(),
        labels: z.array(z.object({ key: z.string(), value: z.string() })).optional(),
        extra: z.record(z.string(), z.string()).optional(),
        note: z.string().nullable().optional(),
      }),
    )
    expect(paramsLine(schema as Record<string, unknown>)).toBe(
      'title!:string — Short name; extra?:record<string>; labels?:{key!:string, value!:string}[]; note?:string|null; priority?:enum("low","high")',
    )
  })

  it('ends for schemas that contain themselves', () => {
    const node = {
      type: 'object',
      properties: { next: { $ref: '#/$defs/node' }, all: { type: 'array', items: { $ref: '#/$defs/node' } } },
    }
    const loop = { anyOf: [{ $ref: '#/$defs/loop' }, { $ref: '#/$defs/loop' }, { $ref: '#/$defs/loop' }] }
    const text = line({ node: { $ref: '#/$defs/node' }, loop: { $ref: '#/$defs/loop' } }, [], {
      $defs: { node, loop, self: { $ref: '#/$defs/self' } },
    })
    expect(text).toContain('node?:{all?:object[], next?:object}')
  })

  it('gives one line for any JSON as a schema', () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.constantFrom('type', 'properties', 'items', 'anyOf', 'enum', '$ref', 'required', 'allOf'),
          fc.jsonValue(),
        ),
        (schema) => {
          expect(paramsLine({ type: 'object', properties: { value: schema }, ...schema })).not.toMatch(/[\n\r]/)
        },
      ),
    )
  })
})
