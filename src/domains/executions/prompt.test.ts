import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import {
  buildTask,
  newestWithin,
  type PastAttempt,
  type PromptParts,
  requireNoReserved,
  shortened,
  withAttempts,
} from './prompt.ts'
import { fittingInput } from './schema.ts'
import { renderTemplate } from './template.ts'

const parts = (more: Partial<PromptParts> & { template?: string } = {}): PromptParts => ({
  task: { instruction: 'Do it well.', systemPrompt: null, promptTemplate: more.template ?? null, inputData: null },
  intent: null,
  input: null,
  contextOverrides: {},
  context: [],
  iteration: 1,
  history: [],
  ...more,
})
const buildPrompt = (asked: PromptParts): string => withAttempts(buildTask(asked), asked.history)
const rendered = (template: string, input: Json, more: Partial<PromptParts> = {}): string =>
  buildPrompt(parts({ template, input, ...more }))

describe('without a template', () => {
  it('has instruction, task and input in turn', () => {
    expect(buildPrompt(parts({ intent: 'Sort', input: 'b a' }))).toBe(
      'Do it well.\n\nTask: Sort\n\nUser: b a\n\nAgent:',
    )
    expect(buildPrompt(parts({ intent: 'Sort' }))).toBe('Do it well.\n\nUser: Sort\n\nAgent:')
    expect(buildPrompt(parts())).toBe('Do it well.\n\nAgent:')
  })

  it('takes the prompt of an object as its text, and shows the rest', () => {
    const text = buildPrompt(parts({ input: { prompt: 'Sort', order: 'up' } }))
    expect(text).toContain('User: Sort\n\nInput: {"order":"up"}')
    expect(buildPrompt(parts({ input: { a: 1 } }))).toContain('User: {"a":1}')
    expect(buildPrompt(parts({ input: { workflow_input: 'w', x: 1 } }))).toContain('User: w')
  })
})

describe('a template', () => {
  it('escapes nothing and prints objects as JSON', () => {
    expect(rendered('{{input}}|{{input.q}}|{{{input.q}}}', { q: '<"a">' })).toBe('{"q":"<\\"a\\">"}|<"a">|<"a">')
    expect(rendered('{{input.list}} {{#each input.list}}[{{this}}]{{/each}}', { list: [1, { a: 2 }] })).toBe(
      '[1,{"a":2}] [1][{"a":2}]',
    )
    expect(rendered('{{json input}}', { prompt: 'p', a: 1 })).toBe('{"prompt":"p","a":1}')
    expect(rendered('{{keys input}} {{input.nothing}}', { a: 1, b: 2 })).toBe('a, b ')
  })

  it('has the loop’s own names and those of the caller', () => {
    const history: PastAttempt[] = [
      { iteration: 1, output: 'x', exit_code: 0, validation_failed: true, validation_reason: 'too short' },
    ]
    const text = rendered('{{instruction}} {{iteration_number}} {{previous_error}} {{who}}', 'i', {
      iteration: 2,
      history,
      contextOverrides: { who: 'me' },
    })
    expect(text).toContain('Do it well. 2 too short me')
    expect(() => requireNoReserved({ input: 1 })).toThrow(expect.objectContaining({ code: 'ERR_INVALID_INPUT' }))
  })

  it('reaches nothing that it was not handed', () => {
    for (const name of [
      'constructor',
      '__proto__',
      'input.constructor',
      'input.toString.constructor',
      'hasOwnProperty',
    ]) {
      expect(rendered(`[{{${name}}}]`, { a: 1 }), name).toMatch(/^\[.{0,20}\]$/)
    }
    expect(rendered('{{#with input as |o|}}{{o.constructor.name}}{{/with}}', { a: 1 })).toBe('')
  })

  it('is bounded in its text, its loops and what it renders', () => {
    const list = Array.from({ length: 300 }, () => 1)
    const nested = '{{#each input}}{{#each ../input}}{{#each ../../input}}x{{/each}}{{/each}}{{/each}}'
    const refused = expect.objectContaining({ code: 'ERR_TEMPLATE_INVALID' })
    expect(() => rendered(nested, list)).toThrow(refused)
    expect(() => rendered('x'.repeat(limits.promptTemplateCharsMax + 1), '')).toThrow(refused)
    expect(() => rendered('{{#if}', '')).toThrow(refused)
    const large = { list: Array.from({ length: 50_000 }, (_, index) => `item ${index}`) }
    expect(() => rendered('{{#if (json input)}}{{/if}}'.repeat(1_000), large)).toThrow(refused)
    expect(() => rendered('{{#each input.list}}{{#if (keys ../input.wide)}}{{/if}}{{/each}}', large)).toThrow(refused)
    const deep = Array.from({ length: 2_000 }).reduce<Json>((inner) => [inner], 'z'.repeat(100_000))
    expect(rendered('{{iteration_number}}', deep)).toBe('1')
    const long = 'y'.repeat(limits.promptCharsMax)
    expect(() => renderTemplate('f', '{{a}}{{a}}', { a: long })).toThrow(refused)
  })
})

it('a later iteration is told of the earlier ones', () => {
  const history: PastAttempt[] = [
    { iteration: 1, output: 'first', exit_code: 0, validation_failed: true, validation_reason: 'no file' },
    { iteration: 2, output: '', exit_code: null, validation_failed: false, validation_reason: null, error: 'timeout' },
  ]
  const text = buildPrompt(parts({ iteration: 3, history }))
  expect(text).toMatch(/^Previous attempts\n\n## Attempt 1\nOutput:\nfirst\nNot accepted because: no file/)
  expect(text).toContain('## Attempt 2\nOutput:\n\nNot accepted because: timeout')
  expect(shortened('a'.repeat(100), 10)).toBe('aaaaa\n[… 90 characters left out …]\naaaaa')
})

it('many attempts are told from the newest, as far as there is room', () => {
  const history = Array.from({ length: 100 }, (_, index): PastAttempt => {
    const failed = { validation_failed: true, validation_reason: `reason ${index + 1}` }
    return { iteration: index + 1, output: 'x'.repeat(5_000), exit_code: 0, ...failed }
  })
  const text = buildPrompt(parts({ iteration: 101, history }))
  expect(text.length).toBeLessThan(limits.attemptsCharsMax + 1_000)
  expect(text).toMatch(/^Previous attempts\n\n\[… 7\d earlier attempts left out …\]\n\n## Attempt 7/)
  expect(text).toContain('## Attempt 100\n')
  expect(newestWithin([9, 1], 5, (size) => size)).toEqual([1])
  expect(newestWithin([1, 9], 5, (size) => size)).toEqual([9])
  expect(newestWithin([], 5, (size) => size)).toEqual([])
  expect(newestWithin([2, 3], 5, (size) => size)).toEqual([2, 3])
})

it('context comes with its titles', () => {
  expect(buildPrompt(parts({ context: [{ title: 'notes.md', text: 'n' }] }))).toContain('Context\n\n## notes.md\nn')
})

describe('the defaults of an input_schema', () => {
  const schema = {
    type: 'object',
    required: ['colour'],
    properties: { colour: { type: 'string', default: 'red' }, size: { type: 'integer' } },
  }
  const fitted = (input: Json, inputSchema: Json = schema) =>
    fittingInput({ inputSchema } as unknown as AgentManifest, input)

  it.each<[Json, Json]>([
    [null, { colour: 'red' }],
    [{ size: 1 }, { size: 1, colour: 'red' }],
    [{ colour: 'blue' }, { colour: 'blue' }],
    [{ input: { size: 1 } }, { input: { size: 1, colour: 'red' } }],
    [
      { workflow_input: {}, more: 1 },
      { workflow_input: { colour: 'red' }, more: 1 },
    ],
  ])('fill %j up to %j', async (input, expected) => {
    expect(await fitted(input)).toEqual(expected)
  })

  it('leave no input where there are none, and refuse what does not fit', async () => {
    expect(await fitted(null, { type: 'object', properties: { size: { type: 'integer' } } })).toBeNull()
    await expect(fitted({ size: 'x' })).rejects.toThrow('does not conform to spec.input_schema')
    await expect(fitted('text')).rejects.toThrow('does not conform to spec.input_schema')
  })
})
