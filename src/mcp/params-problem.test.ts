import { ProtocolError } from '@modelcontextprotocol/server'
import { expect, it } from 'vitest'
import { refusedParams } from './params-problem.ts'

const issuesAt = (...path: readonly (string | number)[]): string => JSON.stringify([{ path, message: 'wrong' }])
const request = { method: 'prompts/get', params: { name: 5 } }

it('names the first field that the schema refused', () => {
  const expected = 'Invalid params of prompts/get: params.name: wrong'
  expect(refusedParams(request, new Error(issuesAt('params', 'name')))).toBe(expected)
})

it.each([
  ['an error of a server behind', new ProtocolError(-32603, issuesAt('params', 'name'))],
  ['a fault of ours that a schema found elsewhere', new Error(issuesAt('content', 0))],
  ['a fault without a field', new Error(issuesAt())],
  ['a list that says something else', new Error('[null]')],
  ['a text that begins like a list', new Error('[Castellan] no')],
  ['what is no error', issuesAt('params', 'name')],
])('leaves %s as it is', (_, error) => {
  expect(refusedParams(request, error)).toBeUndefined()
})
