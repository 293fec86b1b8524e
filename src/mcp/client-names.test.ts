import { describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import { clientNameRules, needsSafeNames } from './client-names.ts'
import { exposureOfUrl, parseExposure } from './exposure.ts'

describe('the table of clients', () => {
  it('has a reason for every row and no row twice', () => {
    for (const { prefix, reason } of clientNameRules) {
      expect(prefix).toBe(prefix.toLowerCase())
      expect(reason).toMatch(/\.$/)
    }
    expect(new Set(clientNameRules.map((rule) => rule.prefix)).size).toBe(clientNameRules.length)
  })

  it.each([
    ['claude-ai', true],
    ['Claude-Code', true],
    ['cursor-vscode', true],
    ['Visual Studio Code - Insiders', true],
    ['mcp-inspector', false],
    ['', false],
    [undefined, false],
  ])('decides %s: %s', (name, expected) => {
    expect(needsSafeNames(name)).toBe(expected)
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
