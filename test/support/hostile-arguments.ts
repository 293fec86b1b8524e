import fc from 'fast-check'
import { propertiesOf, type Schema, validArguments } from './arguments.ts'

/** Values that have broken programs before, in any place where a value can stand. */
const nested = (depth: number, inArray: boolean): unknown => {
  let value: unknown = 'x'
  for (let level = 0; level < depth; level++) value = inArray ? [value] : { a: value }
  return value
}

const hostileTexts = fc.oneof(
  fc.constantFrom(
    ...['', ' ', '\u0000', 'a\u0000b', '\ud800', 'x\udfffy', '\ufeff', '\u202e', '\r\n', '%00', '../../etc/passwd'],
    ...["'; DROP TABLE tasks; --", '"', '\\', '$1', '{{x}}', '__proto__', 'constructor', 'toString', 'null', 'NaN'],
    ...[
      'T-0001',
      'T-9999',
      'T--001',
      'T-1e3',
      'T-00000000000001',
      'Θ-0001',
      'A-0001',
      'T-０００１',
      '*',
      'a OR b',
      'NEAR(',
    ],
    ...['2026-02-30T00:00:00Z', '9999-12-31T23:59:59Z', '+275760-09-13T00:00:00Z', '0000-00-00', '-000001-01-01'],
    ...['(a+)+$', '[', '(?<=x)', 'local', '90d', '0s', 'task:*', 'é'.normalize('NFD'), '𝒯-0001'],
  ),
  fc.constantFrom(100, 5_001, 70_000, 1_000_000).map((length) => 'x'.repeat(length)),
  fc.constantFrom(300, 9_000).map((length) => '😀'.repeat(length)),
  fc.string({ unit: 'binary', maxLength: 60 }),
)

const hostileNumbers = fc.oneof(
  fc.constantFrom(
    ...[0, -0, -1, 1.5, 1e-7, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 53), 1e21, 1e308, 5e-324],
    ...[Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 101, 501, 1_001, 1_000_000_001],
  ),
  fc.double(),
)

const hostileValues: fc.Arbitrary<unknown> = fc.oneof(
  hostileTexts,
  hostileNumbers,
  fc.constantFrom<unknown>(null, true, false, [], {}, [[]], [null], [undefined], undefined),
  fc.constantFrom(2, 31, 32, 33, 200, 5_000).map((depth) => nested(depth, depth % 2 === 0)),
  fc.constantFrom(21, 101, 5_000).map((length) => Array.from({ length }, (_, index) => `T-${index}`)),
  fc
    .constantFrom(
      ...['{"__proto__":{"polluted":true}}', '{"constructor":{"prototype":{"polluted":true}}}', '{"toString":1}'],
    )
    .map((text) => JSON.parse(text) as unknown),
  fc.object({ maxDepth: 3 }),
  fc.jsonValue({ maxDepth: 4 }),
)

const hostileKeys = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '', ' ', '\u0000', '\ud800'),
  fc.constantFrom('taskid', 'Task_Id', 'task-id', 'arguments', 'tool_name', 'name'),
  fc.string({ maxLength: 20 }),
  fc.constant('k'.repeat(100_000)),
)

/** What a tool would accept, but for one to three things. */
export function nearlyValid(schema: Schema): fc.Arbitrary<Record<string, unknown>> {
  const names = propertiesOf(schema).map(([name]) => name)
  const change = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(names.length > 0 ? fc.constantFrom(...names) : hostileKeys, hostileValues) },
    { weight: 1, arbitrary: fc.tuple(hostileKeys, hostileValues) },
  )
  return fc.tuple(validArguments(schema), fc.array(change, { minLength: 1, maxLength: 3 })).map(([valid, changes]) => {
    const args: Record<string, unknown> = { ...valid }
    for (const [key, value] of changes) {
      if (value === undefined) delete args[key]
      else Object.defineProperty(args, key, { value, enumerable: true, configurable: true, writable: true })
    }
    return args
  })
}

/** Anything at all in the place of arguments. */
export const anything: fc.Arbitrary<unknown> = fc.oneof(
  hostileValues,
  fc.dictionary(hostileKeys, hostileValues, { maxKeys: 4 }),
  fc.constantFrom<unknown>('text', 7, true, null, undefined, [], [1, 2], new Date(0), new Map([['a', 1]])),
)
