import { expect, it } from 'vitest'
import { blockOf, countsModel } from './rules.ts'

it('takes twice as much where the last block was taken within a second, and at most a fiftieth of a limit', () => {
  const limit = { limitType: 'token_cost', value: 10 } as const
  expect(blockOf(limit, undefined, 5_000)).toBe(50_000)
  expect(blockOf(limit, { amount: 80_000, atMs: 4_500 }, 5_000)).toBe(160_000)
  expect(blockOf(limit, { amount: 160_000, atMs: 4_500 }, 5_000)).toBe(200_000)
  expect(blockOf(limit, { amount: 160_000, atMs: 4_000 }, 5_000)).toBe(50_000)
  expect(blockOf({ limitType: 'tool_calls', value: 100 }, undefined, 5_000)).toBe(2)
})

it.each([
  ['claude-opus-4-5', 'claude-opus-4-5'],
  ['claude-opus-4-5', 'Claude-Opus-4-5'],
  ['Claude-Opus-4-5', 'claude-opus-4-5-20251101'],
  ['claude-opus-4-5', 'claude-opus-4-5@20251101'],
  ['claude-opus-4-5', 'claude-opus-4-5-latest'],
  ['gpt-5', 'gpt-5-2025-08-07'],
  ['gemini-2.5-pro', 'gemini-2.5-pro-001'],
  ['gpt-4o', 'openai/gpt-4o'],
  ['gpt-4o', ' gpt-4o\t'],
  ['gpt-4o', 'ft:gpt-4o-2024-08-06:org::id'],
  ['gpt-4o', 'gpt-4o:nitro'],
  ['gpt-4*', 'OpenAI/GPT-4o'],
  ['gemini-2.5-pro', 'models/gemini-2.5-pro'],
  ['gemini-2.5-pro', 'publishers/google/models/gemini-2.5-pro-001'],
  ['openai/gpt-4o', 'openai/gpt-4o'],
  ['claude-*', 'CLAUDE-haiku'],
  ['*', 'anything'],
])('a limit on %s counts %s', (named, model) => {
  expect(countsModel({ models: ['other', named] }, model)).toBe(true)
})

it.each([
  ['gpt-5', 'gpt-5-mini'],
  ['gpt-5', 'gpt-5-mini-2025-08-07'],
  ['gpt-5', 'gpt-5.2'],
  ['gpt-5', 'openai/gpt-5-mini'],
  ['gpt-5', 'ft:gpt-5-mini:org::id'],
  ['claude-opus-4', 'claude-opus-4-5'],
  ['claude-opus-4-5-20251101', 'claude-opus-4-5-20260101'],
  ['claude-*', 'gpt-5'],
])('a limit on %s does not count %s', (named, model) => {
  expect(countsModel({ models: [named] }, model)).toBe(false)
})
