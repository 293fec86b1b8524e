import {
  type JSONRPCMessage,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  type Transport,
} from '@modelcontextprotocol/client'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { Progress } from '../contract/call.ts'
import { type PlainCall, withPlainCalls } from './plain-calls.ts'

type Sent = { id: number; method: string; params: Record<string, unknown> }

let sent: Sent[]
let server: Transport
let client: Transport
let call: PlainCall
let passedOn: unknown[]

beforeEach(() => {
  sent = []
  passedOn = []
  server = {
    start: async () => {},
    close: async () => {},
    send: async (message) => void sent.push(message as unknown as Sent),
  }
  const { transport, call: plainCall } = withPlainCalls(server)
  client = transport
  call = plainCall
  client.onmessage = (message) => void passedOn.push(message)
})

const say = (message: object): void => server.onmessage?.({ jsonrpc: '2.0', ...message } as JSONRPCMessage)
const never = new AbortController().signal
const begin = (more: Partial<Parameters<PlainCall>[2]> = {}) =>
  call('echo', { text: 'hi' }, { signal: never, timeoutMs: 60_000, onProgress: undefined, ...more })
const text = (value: string) => ({ content: [{ type: 'text', text: value }] })

describe('a plain call of a tool', () => {
  it('is one message, and gets the answer with its id', async () => {
    const [one, other] = [begin(), begin()]
    expect(sent.map(({ method, params }) => ({ method, params }))).toEqual([
      { method: 'tools/call', params: { name: 'echo', arguments: { text: 'hi' } } },
      { method: 'tools/call', params: { name: 'echo', arguments: { text: 'hi' } } },
    ])
    expect(sent[0]!.id).not.toBe(sent[1]!.id)
    say({ id: sent[1]!.id, result: text('second') })
    say({ id: String(sent[0]!.id), result: text('first') })
    expect(await Promise.all([one, other])).toEqual([text('first'), text('second')])
    expect(passedOn).toEqual([])
  })

  it.each([
    ['a number', 5],
    ['no code', { message: 'x' }],
    ['no text', { code: 1, message: { toString: 1, valueOf: 1 } }],
  ])('fails if its error is %s', async (_, error) => {
    const pending = begin()
    say({ id: sent[0]!.id, error })
    await expect(pending).rejects.toThrow('Invalid error')
  })

  it('takes null for no error', async () => {
    const [one, other] = [begin(), begin()]
    say({ id: sent[0]!.id, error: null, result: text('first') })
    say({ id: sent[1]!.id, error: null })
    expect(await one).toEqual(text('first'))
    await expect(other).rejects.toThrow('Invalid result')
  })

  it('has the id that it says, and no other value that would be that number', async () => {
    const pending = begin()
    const odd = { toString: 1, valueOf: 1 }
    say({ id: odd, result: text('odd') })
    say({ id: [sent[0]!.id], result: text('odd') })
    say({ method: 'notifications/progress', params: { progressToken: odd, progress: 1 } })
    say({ id: sent[0]!.id, result: text('own') })
    expect(await pending).toEqual(text('own'))
    expect(passedOn).toHaveLength(3)
  })

  it('leaves what is not for it to the client: its answers, requests, notifications and late answers', async () => {
    const pending = begin()
    const others = [
      { jsonrpc: '2.0', id: 3, result: {} },
      { jsonrpc: '2.0', id: sent[0]!.id, method: 'ping' },
      { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 3, progress: 1 } },
      { jsonrpc: '2.0', method: 'notifications/tools/list_changed' },
    ]
    for (const message of others) say(message)
    say({ id: sent[0]!.id, result: text('x') })
    await pending
    const late = { jsonrpc: '2.0', id: sent[0]!.id, result: text('again') }
    say(late)
    expect(passedOn).toEqual([...others, late])
  })

  it('fails with the error that the server answers', async () => {
    const pending = begin()
    say({ id: sent[0]!.id, error: { code: -32602, message: 'no such tool' } })
    const error = await pending.catch((reason: unknown) => reason)
    expect(ProtocolError.isInstance(error)).toBe(true)
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('no such tool') })
  })

  it('takes what the protocol knows as a result, and nothing else', async () => {
    const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' }
    const good: [unknown, object][] = [
      [
        { content: [image], isError: true, _meta: { a: 1 } },
        { content: [image], isError: true, _meta: { a: 1 } },
      ],
      [
        { ...text('x'), structuredContent: { a: 1 } },
        { ...text('x'), structuredContent: { a: 1 } },
      ],
      [{ content: [{ type: 'text', text: 'x', unknown: 1 }] }, text('x')],
      [{}, { content: [] }],
    ]
    for (const [result, expected] of good) {
      const pending = begin()
      say({ id: sent.at(-1)!.id, result })
      expect(await pending).toEqual(expected)
    }
    const bad = [5, null, { content: 'x' }, { content: [{ type: 'nope' }] }, { content: [], structuredContent: [1] }]
    for (const result of [...bad, { content: [], isError: 'yes' }, { content: [{ type: 'text', text: 1 }] }]) {
      const pending = begin()
      say({ id: sent.at(-1)!.id, result })
      const error = await pending.catch((reason: unknown) => reason)
      expect(SdkError.isInstance(error) && error.code, JSON.stringify(result)).toBe(SdkErrorCode.InvalidResult)
    }
  })

  it('tells the server when it is cancelled, and takes no answer after that', async () => {
    const cancel = new AbortController()
    const pending = begin({ signal: cancel.signal })
    cancel.abort('enough')
    await expect(pending).rejects.toThrow('enough')
    expect(sent[1]).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: sent[0]!.id, reason: 'Nobody waits for the answer any more.' },
    })
    say({ id: sent[0]!.id, result: text('late') })
    expect(passedOn).toHaveLength(1)
    await expect(begin({ signal: cancel.signal })).rejects.toThrow('enough')
    expect(sent).toHaveLength(2)
  })

  it('ends when its time is up, which progress extends', async () => {
    vi.useFakeTimers()
    try {
      const seen: Progress[] = []
      const pending = begin({ timeoutMs: 100, onProgress: (update) => seen.push(update) })
      const error = pending.catch((reason: unknown) => reason)
      expect(sent[0]!.params['_meta']).toEqual({ progressToken: sent[0]!.id })
      const progress = (params: object) =>
        say({ method: 'notifications/progress', params: { progressToken: sent[0]!.id, ...params } })
      await vi.advanceTimersByTimeAsync(80)
      progress({ progress: 1, total: 2, message: 'half' })
      await vi.advanceTimersByTimeAsync(80)
      progress({ progress: 2 })
      progress({ progress: 'three' })
      await vi.advanceTimersByTimeAsync(99)
      expect(sent).toHaveLength(1)
      await vi.advanceTimersByTimeAsync(1)
      expect(await error).toMatchObject({ code: SdkErrorCode.RequestTimeout })
      expect(seen).toEqual([{ progress: 1, total: 2, message: 'half' }, { progress: 2 }])
      expect(sent[1]).toMatchObject({ method: 'notifications/cancelled', params: { requestId: sent[0]!.id } })
    } finally {
      vi.useRealTimers()
    }
  })

  it('fails when the connection ends, and before it is sent after that', async () => {
    const pending = begin()
    let isTold = false
    client.onclose = () => {
      isTold = true
    }
    server.onclose?.()
    expect(isTold).toBe(true)
    await expect(pending).rejects.toMatchObject({ code: SdkErrorCode.ConnectionClosed })
    await expect(begin()).rejects.toMatchObject({ code: SdkErrorCode.ConnectionClosed })
    expect(sent).toHaveLength(1)
  })

  it('fails when it cannot be sent', async () => {
    server.send = () => Promise.reject(new Error('the server has ended'))
    await expect(begin()).rejects.toThrow('the server has ended')
  })

  it('is urgent for a server that gets one call at a time', async () => {
    const urgent: boolean[] = []
    const post = (message: JSONRPCMessage, isUrgent: boolean): undefined => {
      sent.push(message as unknown as Sent)
      urgent.push(isUrgent)
    }
    call = withPlainCalls(Object.assign(server, { post })).call
    const answered = async (count: number): Promise<void> => {
      const calls = Array.from({ length: count }, () => begin())
      for (const { id } of sent.slice(-count)) say({ id, result: text('x') })
      await Promise.all(calls)
    }
    for (const count of [1, 1, 3, 1, 1, 1]) await answered(count)
    expect(urgent).toEqual([true, true, true, false, false, false, false, true])
  })

  it('is forgotten when it cannot be posted, and when it is answered while it is posted', async () => {
    vi.useFakeTimers()
    try {
      const post = (message: JSONRPCMessage): undefined => {
        sent.push(message as unknown as Sent)
        if (sent.length === 1) throw new Error('the server has ended')
        say({ id: sent.at(-1)!.id, result: text('at once') })
      }
      call = withPlainCalls(Object.assign(server, { post })).call
      await expect(begin()).rejects.toThrow('the server has ended')
      expect(await begin()).toEqual(text('at once'))
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })
})
