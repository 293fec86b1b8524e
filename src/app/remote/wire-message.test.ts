import { describe, expect, it } from 'vitest'
import { answeredBy, readMessage } from './wire-message.ts'

const stateless = (method: string, params: object) =>
  readMessage(
    JSON.stringify({
      id: 1,
      method,
      params: { ...params, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } },
    }),
  )?.statelessHeaders

describe('a line of a client', () => {
  it('is a request, a notification, a cancellation or a batch', () => {
    expect(readMessage('{"id":1,"method":"ping"}')).toMatchObject({ ids: [1], method: 'ping' })
    expect(readMessage('{"method":"notifications/initialized"}')).toMatchObject({ ids: [] })
    const cancelled = readMessage('{"method":"notifications/cancelled","params":{"requestId":"a"}}')
    expect(cancelled).toMatchObject({ ids: [], cancels: 'a' })
    expect(readMessage('[{"id":1,"method":"a"},{"method":"b"},{"id":2,"result":{}}]')).toMatchObject({ ids: [1] })
    expect(readMessage('{"id":1,"result":{}}')).toMatchObject({ ids: [], method: undefined })
    expect(readMessage('{"id"')).toBeUndefined()
  })

  it('has the headers of the stateless revision only if it is of that', () => {
    expect(readMessage('{"id":1,"method":"tools/call","params":{"name":"a"}}')?.statelessHeaders).toBeUndefined()
    expect(stateless('tools/call', { name: 'task_list' })).toEqual({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'task_list',
    })
    expect(stateless('tools/list', {})).not.toHaveProperty('mcp-name')
    expect(stateless('resources/read', { uri: 'note:é' })).toHaveProperty('mcp-name', '=?base64?bm90ZTrDqQ==?=')
    expect(stateless('tools/call', { name: '=?base64?eA==?=' })).toHaveProperty(
      'mcp-name',
      `=?base64?${Buffer.from('=?base64?eA==?=').toString('base64')}?=`,
    )
  })
})

it('a line of the server answers requests, unless it asks something itself', () => {
  expect(answeredBy('{"id":1,"result":{}}')).toEqual([1])
  expect(answeredBy('{"id":1,"method":"sampling/createMessage"}')).toEqual([])
  expect(answeredBy('{"method":"notifications/progress"}')).toEqual([])
})
