import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { createRedactor } from '../../kernel/redactor.ts'
import { displayedArguments } from './rules.ts'

const view = (args: unknown, secrets: readonly string[] = []) => displayedArguments(args, createRedactor(secrets))

describe('arguments for the eyes of people', () => {
  it('are as they came if nothing in them is secret', () => {
    const args = { to: ['ann@example.com'], subject: 'hello', count: 3, is_html: false, nothing: null }
    expect(view(args)).toEqual({ arguments: args, isMasked: false })
  })

  it('have no value of a field that is named like a secret, at any depth', () => {
    const args = { password: 'hunter22', headers: [{ Authorization: 'Bearer abc', 'x-api-key': 12345 }], token: '' }
    const { arguments: displayed, isMasked } = view(args)
    expect(displayed).toEqual({
      password: '***',
      headers: [{ Authorization: '***', 'x-api-key': '***' }],
      token: '',
    })
    expect(isMasked).toBe(true)
  })

  it('have no credentials of URLs and headers, and no secret of the configuration', () => {
    const text =
      'git clone https://ann:hunter22@example.com; curl -H "Authorization: Bearer abcdefgh12"; echo top-secret-1'
    const { arguments: displayed } = view({ command: text }, ['top-secret-1'])
    expect(JSON.stringify(displayed)).not.toMatch(/hunter22|abcdefgh12|top-secret-1/)
    expect(JSON.stringify(displayed)).toContain('example.com')
  })

  it('have a bound, whatever comes', () => {
    const long = 'x'.repeat(1_000_000)
    const deep = JSON.parse(`${'{"a":'.repeat(500)}1${'}'.repeat(500)}`)
    const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`key-${index}`, long.slice(0, 500)]))
    for (const args of [{ long }, deep, wide, Array.from({ length: 10_000 }, () => long.slice(0, 1_000))]) {
      const { arguments: displayed, isMasked } = view(args)
      expect(JSON.stringify(displayed).length).toBeLessThanOrEqual(limits.approvalArgumentsCharsMax)
      expect(isMasked).toBe(true)
    }
  })
})
