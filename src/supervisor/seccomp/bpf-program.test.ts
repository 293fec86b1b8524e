import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { runBpf } from '../../../test/support/bpf-interpreter.ts'
import { assembleBpf, type BpfStep } from './bpf-program.ts'

const instructionsOf = (program: Buffer): number => program.length / 8

function chain(count: number): readonly BpfStep[] {
  return [
    { kind: 'load', offset: 0 },
    ...Array.from(
      { length: count },
      (_, value): BpfStep => ({ kind: 'jump-if', test: 'equal', value, whenTrue: 'hit', whenFalse: undefined }),
    ),
    { kind: 'return', value: 1 },
    { kind: 'label', name: 'hit' },
    { kind: 'return', value: 2 },
  ]
}

const number = (value: number): Buffer => {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(value, 0)
  return data
}

describe('assembleBpf', () => {
  it('writes one instruction for each jump that reaches', () => {
    expect(instructionsOf(assembleBpf(chain(255)))).toBe(1 + 255 + 2)
  })

  it('takes a detour where the target is farther than a conditional jump reaches', () => {
    const program = assembleBpf(chain(300))
    expect(instructionsOf(program)).toBeGreaterThan(303)
    for (const value of [0, 1, 44, 45, 46, 298, 299]) expect(runBpf(program, number(value)).value, `${value}`).toBe(2)
    expect(runBpf(program, number(300)).value).toBe(1)
  })

  it('means what its steps mean, whatever the distances', () => {
    const holds = {
      equal: (a: number, b: number) => a === b,
      greater: (a: number, b: number) => a > b,
      'any-bit': (a: number, b: number) => (a & b) !== 0,
    }
    const side = fc.option(fc.integer({ min: 1, max: 400 }), { nil: undefined })
    const jump = fc.record({
      test: fc.constantFrom('equal' as const, 'greater' as const, 'any-bit' as const),
      value: fc.integer({ min: 0, max: 7 }),
      whenTrue: side,
      whenFalse: side,
    })
    const node = fc.oneof({ weight: 20, arbitrary: jump }, { weight: 1, arbitrary: fc.constant('return' as const) })
    const property = fc.property(
      fc.array(node, { minLength: 1, maxLength: 900 }),
      fc.integer({ min: 0, max: 7 }),
      (nodes, input) => {
        const last = nodes.length
        const target = (index: number, by: number | undefined): number => Math.min(last, index + (by ?? 1))
        const label = (index: number, by: number | undefined) =>
          by === undefined ? undefined : `at ${target(index, by)}`
        const steps = nodes.flatMap((entry, index): BpfStep[] => [
          { kind: 'label', name: `at ${index}` },
          entry === 'return'
            ? { kind: 'return', value: index }
            : {
                kind: 'jump-if',
                ...entry,
                whenTrue: label(index, entry.whenTrue),
                whenFalse: label(index, entry.whenFalse),
              },
        ])
        const program = assembleBpf([
          { kind: 'load', offset: 0 },
          ...steps,
          { kind: 'label', name: `at ${last}` },
          { kind: 'return', value: last },
        ])

        let at = 0
        for (let entry = nodes[at]; entry !== undefined && entry !== 'return'; entry = nodes[at]) {
          at = target(at, holds[entry.test](input, entry.value) ? entry.whenTrue : entry.whenFalse)
        }
        expect(runBpf(program, number(input)).value).toBe(at)
      },
    )
    fc.assert(property, { numRuns: 100 })
  })

  it.each<readonly [string, readonly BpfStep[], RegExp]>([
    [
      'a label that nothing defines',
      [{ kind: 'jump-if', test: 'equal', value: 0, whenTrue: 'x', whenFalse: undefined }],
      /not defined/,
    ],
    [
      'a label that is there twice',
      [
        { kind: 'label', name: 'x' },
        { kind: 'label', name: 'x' },
      ],
      /twice/,
    ],
    [
      'a jump backward',
      [
        { kind: 'label', name: 'x' },
        { kind: 'jump-if', test: 'equal', value: 0, whenTrue: 'x', whenFalse: undefined },
      ],
      /backward/,
    ],
    [
      'a program that is too long',
      Array.from({ length: 4097 }, () => ({ kind: 'return', value: 0 }) as const),
      /at most 4096/,
    ],
  ])('refuses %s', (_, steps, message) => {
    expect(() => assembleBpf(steps)).toThrow(message)
  })
})
