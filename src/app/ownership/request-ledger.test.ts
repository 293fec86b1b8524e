import { expect, test } from 'vitest'
import { createRequestLedger } from './request-ledger.ts'

const ledger = () => createRequestLedger({ isReadOnlyTool: (name) => name.endsWith('_get') })
const line = (message: object): string => JSON.stringify({ jsonrpc: '2.0', ...message })
const call = (id: unknown, name: string, meta?: object): string =>
  line({ id, method: 'tools/call', params: { name, arguments: {}, ...(meta ? { _meta: meta } : {}) } })
const parsed = (lines: readonly string[]): unknown[] => lines.map((text) => JSON.parse(text))

test('repeats what can be repeated and fails what may have taken effect', () => {
  const books = ledger()
  for (const text of [call(1, 'task_get'), call('w', 'task_create'), line({ id: 3, method: 'tools/list' })]) {
    expect(books.fromClient(text)).toBe(text)
  }
  const told = parsed(books.ownerLost(77)) as { id: unknown; result: { isError: boolean; structuredContent: object } }[]
  expect(told).toHaveLength(1)
  expect(told[0]).toMatchObject({ id: 'w', result: { isError: true } })
  expect(told[0]?.result).not.toHaveProperty('resultType')
  expect(parsed(books.replayRest())).toMatchObject([{ id: 1 }, { id: 3 }])
  expect(books.openRequests()).toBe(2)
})

test('a failed call of the stateless revision carries its result type', () => {
  const books = ledger()
  books.fromClient(call(1, 'task_create', { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }))
  expect(parsed(books.ownerLost(1))).toMatchObject([{ result: { resultType: 'complete', isError: true } }])
})

test('answered and cancelled requests are forgotten, whatever the spelling of the answer', () => {
  const books = ledger()
  for (const id of [1, 'a"\\b', 3, 4]) books.fromClient(call(id, 'task_create'))
  books.fromOwner(line({ id: 1, result: {} }))
  books.fromOwner(line({ id: 'a"\\b', error: { code: 1, message: '' } }))
  books.fromOwner(JSON.stringify({ result: {}, id: 3, jsonrpc: '2.0' }))
  books.fromClient(line({ method: 'notifications/cancelled', params: { requestId: 4 } }))
  expect(books.openRequests()).toBe(0)
  expect(books.ownerLost(1)).toEqual([])
})

test('the ids 1 and "1" are two requests', () => {
  const books = ledger()
  books.fromClient(call(1, 'task_create'))
  books.fromClient(call('1', 'task_create'))
  books.fromOwner(line({ id: '1', result: {} }))
  expect(parsed(books.ownerLost(1))).toMatchObject([{ id: 1 }])
})

test('replays handshake and settings under ids of its own and keeps their answers from the client', () => {
  const books = ledger()
  books.fromClient(line({ id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25' } }))
  books.fromOwner(line({ id: 0, result: {} }))
  books.fromClient(line({ method: 'notifications/initialized' }))
  books.fromClient(line({ id: 1, method: 'logging/setLevel', params: { level: 'info' } }))
  books.fromClient(line({ id: 2, method: 'resources/subscribe', params: { uri: 'a:1' } }))
  books.fromClient(line({ id: 3, method: 'resources/subscribe', params: { uri: 'a:2' } }))
  books.fromClient(line({ id: 4, method: 'resources/unsubscribe', params: { uri: 'a:1' } }))
  for (const id of [1, 2, 3, 4]) books.fromOwner(line({ id, result: {} }))
  expect(books.ownerLost(1)).toEqual([])

  const handshake = JSON.parse(books.replayHandshake()!)
  expect(handshake).toMatchObject({ method: 'initialize', params: { protocolVersion: '2025-11-25' } })
  expect(books.isHandshakeAnswered()).toBe(false)
  expect(books.fromOwner(line({ id: handshake.id, result: {} }))).toBeUndefined()
  expect(books.isHandshakeAnswered()).toBe(true)
  const rest = parsed(books.replayRest()) as { id?: string; method: string; params?: object }[]
  expect(rest).toMatchObject([
    { method: 'notifications/initialized' },
    { method: 'logging/setLevel', params: { level: 'info' } },
    { method: 'resources/subscribe', params: { uri: 'a:2' } },
  ])
  expect(books.mustKeepWatching()).toBe(true)
  for (const { id } of rest) if (id !== undefined) expect(books.fromOwner(line({ id, result: {} }))).toBeUndefined()
  expect(books.mustKeepWatching()).toBe(false)
})

test('an initialize without an answer is sent again as it was', () => {
  const books = ledger()
  const initialize = line({ id: 0, method: 'initialize', params: {} })
  books.fromClient(initialize)
  books.ownerLost(1)
  expect(books.replayHandshake()).toBeUndefined()
  expect(books.replayRest()).toEqual([initialize])
  expect(books.fromOwner(line({ id: 0, result: {} }))).toBeDefined()
})

test('an open subscription goes on: one acknowledgement for the client, no end by an orderly owner', () => {
  const books = ledger()
  const listen = line({ id: 's', method: 'subscriptions/listen', params: { notifications: {} } })
  const acknowledged = line({
    method: 'notifications/subscriptions/acknowledged',
    params: { _meta: { 'io.modelcontextprotocol/subscriptionId': 's' } },
  })
  books.fromClient(listen)
  expect(books.fromOwner(acknowledged)).toBe(acknowledged)
  books.ownerClosing()
  expect(books.fromOwner(line({ id: 's', result: { resultType: 'complete' } }))).toBeUndefined()
  books.ownerLost(1)
  expect(books.replayRest()).toEqual([listen])
  expect(books.fromOwner(acknowledged)).toBeUndefined()
  expect(books.fromOwner(line({ id: 's', result: {} }))).toBeDefined()
})

test('a subscription that was lost before its acknowledgement gets one from the next owner', () => {
  const books = ledger()
  books.fromClient(line({ id: 's', method: 'subscriptions/listen', params: {} }))
  books.ownerLost(1)
  books.replayRest()
  const acknowledged = line({
    method: 'notifications/subscriptions/acknowledged',
    params: { _meta: { 'io.modelcontextprotocol/subscriptionId': 's' } },
  })
  expect(books.fromOwner(acknowledged)).toBe(acknowledged)
})

test('questions of a lost owner are withdrawn, and the next owner never gets their answers', () => {
  const books = ledger()
  books.fromOwner(line({ id: 0, method: 'sampling/createMessage', params: {} }))
  expect(parsed(books.ownerLost(1))).toMatchObject([{ method: 'notifications/cancelled', params: { requestId: 0 } }])
  const displayed = JSON.parse(books.fromOwner(line({ id: 0, method: 'roots/list' }))!)
  expect(displayed.id).not.toBe(0)
  expect(books.fromClient(line({ id: 0, result: { for: 'the lost one' } }))).toBeUndefined()
  expect(JSON.parse(books.fromClient(line({ id: displayed.id, result: { roots: [] } }))!)).toEqual({
    jsonrpc: '2.0',
    id: 0,
    result: { roots: [] },
  })
  expect(books.mustKeepWatching()).toBe(false)
})

test('without an owner every request is refused in its own way and nothing else is answered', () => {
  const books = ledger()
  const refused = parsed(books.refuse(`[${call(1, 'task_create')},${line({ id: 2, method: 'ping' })}]`, 'nobody there'))
  expect(refused).toMatchObject([
    {
      id: 1,
      result: { isError: true, structuredContent: { error: { code: 'ERR_OWNER_LOST', message: 'nobody there' } } },
    },
    { id: 2, error: { message: 'nobody there', data: { error: { code: 'ERR_OWNER_LOST' } } } },
  ])
  expect(books.refuse(line({ method: 'notifications/initialized' }), 'x')).toEqual([])
  expect(books.refuse('not json', 'x')).toEqual([])
})

test('passes on what it does not understand', () => {
  const books = ledger()
  for (const text of ['not json', '[]', '"x"', 'null']) {
    expect(books.fromClient(text)).toBe(text)
    expect(books.fromOwner(text)).toBe(text)
  }
})
