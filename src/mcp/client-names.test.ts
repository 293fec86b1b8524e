import { describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import { clientRules, traitsOf } from './client-names.ts'
import { exposureOfUrl, parseExposure } from './exposure.ts'

describe('the table of clients', () => {
  it('has a reason for every row and no row twice', () => {
    for (const { name, reason } of clientRules) {
      expect(name).toBe(name.toLowerCase())
      expect(reason).toMatch(/\.$/)
    }
    expect(new Set(clientRules.map((rule) => rule.name)).size).toBe(clientRules.length)
  })

  it.each([
    ['claude-ai', 'safe'],
    ['Claude-Code', 'safe'],
    ['cursor-vscode', 'safe'],
    ['Visual Studio Code - Insiders', 'safe'],
    ['ai-sdk-mcp-client', 'safe'],
    ['continue-cli-client', 'safe'],
    ['nanocoder-mcp-client', 'safe'],
    ['@cline/core', 'safe'],
    ['qwen-cli-mcp-client-castellan', 'safe'],
    ['codex-mcp-client', 'safe'],
    ['mcp', 'safe'],
    ['@langchain/mcp-adapters', 'safe'],
    ['streamable-http: http://127.0.0.1:4000/mcp', 'safe'],
    ['mcp-use', 'safe'],
    ['goose', 'safe'],
    ['Zed', 'safe'],
    ['windsurf-client', 'safe'],
    ['opencode', 'safe'],
    ['mcp-inspector', 'distinct'],
    ['contract-check', 'documented'],
    ['', 'distinct'],
    [undefined, 'distinct'],
  ])('decides %s: %s', (name, expected) => {
    expect(traitsOf(name).names).toBe(expected)
  })

  it('knows what a client adds to every call', () => {
    expect(traitsOf('gemini-cli-mcp-client').addedArguments).toEqual(['wait_for_previous'])
    expect(traitsOf('claude-code').addedArguments).toEqual([])
    expect(traitsOf('wait_for_previous').addedArguments).toEqual([])
  })
})

describe('the exposure asked for', () => {
  it.each([
    ['/mcp', 'default'],
    ['/mcp?tools=', 'default'],
    ['/mcp?tools=full', 'full'],
    ['/mcp?x=1&tools=task_create,%20ledger', ['task_create', 'ledger']],
    [undefined, 'default'],
  ])('of %s is %j', (url, expected) => {
    expect(exposureOfUrl(url)).toEqual(expected)
  })

  it('is refused with too many names', () => {
    expect(() => parseExposure(Array.from({ length: 300 }, (_, index) => `t${index}`).join(','))).toThrow(AppError)
  })
})
