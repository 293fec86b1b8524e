import { expect, it } from 'vitest'
import { countsModel } from './rules.ts'

it.each([
  ['claude-opus-4-5', 'claude-opus-4-5'],
  ['claude-opus-4-5', 'Claude-Opus-4-5'],
  ['Claude-Opus-4-5', 'claude-opus-4-5-20251101'],
  ['claude-opus-4-5', 'claude-opus-4-5@20251101'],
  ['claude-opus-4-5', 'claude-opus-4-5-latest'],
  ['gpt-5', 'gpt-5-2025-08-07'],
  ['gemini-2.5-pro', 'gemini-2.5-pro-001'],
  ['claude-*', 'CLAUDE-haiku'],
  ['*', 'anything'],
])('a limit on %s counts %s', (named, model) => {
  expect(countsModel({ models: ['other', named] }, model)).toBe(true)
})

it.each([
  ['gpt-5', 'gpt-5-mini'],
  ['gpt-5', 'gpt-5-mini-2025-08-07'],
  ['gpt-5', 'gpt-5.2'],
  ['claude-opus-4', 'claude-opus-4-5'],
  ['claude-opus-4-5-20251101', 'claude-opus-4-5-20260101'],
  ['claude-*', 'gpt-5'],
])('a limit on %s does not count %s', (named, model) => {
  expect(countsModel({ models: [named] }, model)).toBe(false)
})
