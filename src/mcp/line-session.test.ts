import { describe, expect, it } from 'vitest'
import { createLinePeer, type LinePeer, type Message, modernMeta } from '../../test/support/line-peer.ts'
import { createSampleHost } from '../../test/support/sample-host.ts'
import { limits } from '../contract/limits.ts'
import { idAtTheEnds } from './line-session.ts'

const call = (peer: LinePeer, name: string, args: unknown = {}, more: object = {}): Promise<Message> =>
  peer.request('tools/call', { name, arguments: args, ...more })
const modernCall = (peer: LinePeer, name: string, args: unknown = {}, meta: object = {}): Promise<Message> =>
  call(peer, name, args, { _meta: { ...modernMeta, ...meta } })
const toolNames = (reply: Message): string[] => (reply.result!['tools'] as { name: string }[]).map((tool) => tool.name)
const textOf = (reply: Message): string => (reply.result!['content'] as { text: string }[])[0]!.text
const envelopeOf = (reply: Message) =>
  (JSON.parse(textOf(reply)) as { error: { code: string; details: unknown } }).error

describe('the handshake', () => {
  it.each(['2025-11-25', '2025-06-18', '2025-03-26'])(
    'agrees on revision %s and names the server',
    async (revision) => {
      const peer = createLinePeer()
      const { result } = await peer.initialize(revision)
      expect(result).toMatchObject({
        protocolVersion: revision,
        serverInfo: { name: 'castellan', version: '1.2.3' },
        capabilities: { tools: { listChanged: true } },
      })
      expect(String(result?.['instructions'])).toMatch(/search_tools.*run_tool/s)
    },
  )

  it('names the field of a bad initialize, and takes a good one after it', async () => {
    const peer = createLinePeer()
    const client = { name: 'test', version: '1' }
    const missing = await peer.request('initialize', { protocolVersion: '2025-11-25', clientInfo: client })
    expect(missing.error).toEqual({
      code: -32602,
      message: 'Invalid params of initialize: params.capabilities: missing',
    })
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { ...client, version: 2 } }
    const wrong = await peer.request('initialize', params)
    expect(wrong.error?.code).toBe(-32602)
    expect(wrong.error?.message).toMatch(/^Invalid params of initialize: params\.clientInfo\.version: [^{[]+$/)
    expect((await peer.initialize()).result).toHaveProperty('protocolVersion')
  })

  it('serves the stateless revision without a handshake', async () => {
    const peer = createLinePeer()
    const discovered = await peer.request('server/discover', { _meta: modernMeta })
    expect(discovered.result).toMatchObject({ supportedVersions: ['2026-07-28'], resultType: 'complete' })
    for (let round = 0; round < 2; round++) {
      const reply = await modernCall(peer, 'ping')
      expect(reply.result).toMatchObject({
        resultType: 'complete',
        structuredContent: { pong: true },
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'castellan', version: '1.2.3' } },
      })
    }
  })

  it('refuses a stateless request whose envelope is not valid, also after good ones', async () => {
    const peer = createLinePeer()
    await modernCall(peer, 'ping')
    const bad = { ...modernMeta, 'io.modelcontextprotocol/clientCapabilities': 7 }
    expect((await call(peer, 'ping', {}, { _meta: bad })).error?.code).toBe(-32602)
    expect((await call(peer, 'ping')).error?.code).toBe(-32602)
    const unknown = { ...modernMeta, 'io.modelcontextprotocol/protocolVersion': '2031-01-01' }
    expect((await call(peer, 'ping', {}, { _meta: unknown })).error).toMatchObject({
      code: -32022,
      data: { supported: ['2026-07-28'], requested: '2031-01-01' },
    })
  })
})

describe('tool calls', () => {
  it('carry the answer as structured content and as text, byte for byte', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    const text = 'quotes " and \\ and \u2028 and 🜁'
    const reply = await call(peer, 'echo', { text })
    expect(reply.result).toEqual({
      content: [{ type: 'text', text: JSON.stringify({ text }) }],
      structuredContent: { text },
    })
  })

  it('are answered alike by the hot path and by the SDK, in both eras', async () => {
    const cases: [string, unknown][] = [
      ['ping', {}],
      ['echo', { text: 'hello' }],
      ['echo', { text: 5 }],
      ['picture', {}],
      ['run_tool', { name: 'nothing' }],
      ['no_such_tool', {}],
    ]
    const old = createLinePeer()
    await old.initialize()
    const modern = createLinePeer()
    await modernCall(modern, 'ping')
    const throughSdk = { task: { ttl: 1 } }
    for (const [name, args] of cases) {
      const [hot, slow] = [await call(old, name, args), await call(old, name, args, throughSdk)]
      expect({ ...slow, id: 0 }).toEqual({ ...hot, id: 0 })
      const hotModern = await modernCall(modern, name, args)
      const slowModern = await call(modern, name, args, { _meta: modernMeta, ...throughSdk })
      expect({ ...slowModern, id: 0 }).toEqual({ ...hotModern, id: 0 })
    }
  })

  it('of a tool that does not exist are a protocol error, and a failed call when a tool reports it', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    const unknown = await call(peer, 'no_such_tool')
    expect(unknown.error).toMatchObject({ code: -32602, data: { code: 'ERR_UNKNOWN_TOOL' } })
    const nested = await call(peer, 'run_tool', { name: 'x' })
    expect(nested.result?.['isError']).toBe(true)
    expect(envelopeOf(nested).code).toBe('ERR_UNKNOWN_TOOL')
  })

  it('that fail carry the envelope as structured content, which the listed schema admits', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    const withSchema = await call(peer, 'echo', { text: 1 })
    expect(withSchema.result).toMatchObject({
      isError: true,
      structuredContent: { error: { code: 'ERR_INVALID_INPUT' } },
    })
    expect(envelopeOf(withSchema)).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'text' } })
    const without = await call(peer, 'run_tool', { name: 'x' })
    expect(without.result).toHaveProperty('structuredContent.error.code', 'ERR_UNKNOWN_TOOL')
  })
})

describe('warnings', () => {
  const warned = (content?: { type: string; text: string }[]) => ({
    ...createSampleHost(),
    call: async () => ({
      json: '{"found":1}',
      output: { found: 1 },
      isError: false,
      content: content ?? [{ type: 'text', text: '{"found":1}' }],
      warnings: ['Look out.'],
    }),
  })

  it.each(['2025-11-25', '2024-11-05'])(
    'stand in the one text block and in what is structured, in %s',
    async (revision) => {
      const peer = createLinePeer({ sampleHost: warned() })
      await peer.initialize(revision)
      const { result } = await call(peer, 'ping')
      const said = { found: 1, warnings: ['Look out.'] }
      expect(result!['content']).toEqual([{ type: 'text', text: JSON.stringify(said) }])
      expect(result!['structuredContent']).toEqual(revision === '2024-11-05' ? undefined : said)
    },
  )

  it('follow a text that is not the JSON', async () => {
    const peer = createLinePeer({ sampleHost: warned([{ type: 'text', text: 'one line' }]) })
    await peer.initialize()
    expect(textOf(await call(peer, 'ping'))).toBe('one line\nWarning: Look out.')
  })

  it('are blocks of their own for the terminal, which prints the answer apart', async () => {
    const content = [
      { type: 'text', text: '{"found":1}' },
      { type: 'text', text: 'Warning: Look out.' },
    ]
    const peer = createLinePeer({ sampleHost: warned(content), caller: { transport: 'cli' } })
    await peer.initialize()
    expect((await call(peer, 'ping')).result).toEqual({ content, structuredContent: { found: 1 } })
  })
})

describe('tool calls under way', () => {
  it('report progress under the token of the request and only while it grows', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    const reply = await call(peer, 'count', {}, { _meta: { progressToken: 'p1' } })
    expect(reply.result).toBeDefined()
    const notes = peer.received.flat().filter((message) => message.method === 'notifications/progress')
    expect(notes.map((note) => note.params)).toEqual(
      [1, 2, 3].map((step) => ({ progressToken: 'p1', progress: step, total: 3, message: `step ${step}` })),
    )
  })

  it('can be cancelled: the signal aborts and no reply comes', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    peer.send({ jsonrpc: '2.0', id: 'w', method: 'tools/call', params: { name: 'wait' } })
    await peer.host.whenWaiting(1)
    peer.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'w', reason: 'enough' } })
    await call(peer, 'ping')
    expect(peer.host.waiting[0]!.signal.aborted).toBe(true)
    expect(peer.received.flat().some((message) => message.id === 'w')).toBe(false)
  })

  it('beyond the limit are answered ERR_BUSY, and work again once some finished', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    const waits = Array.from({ length: limits.callsInFlightPerConnectionMax }, (_, index) => ({
      jsonrpc: '2.0',
      id: `w${index}`,
      method: 'tools/call',
      params: { name: 'wait' },
    }))
    peer.send(...waits)
    await peer.host.whenWaiting(waits.length)
    const refused = await call(peer, 'ping')
    expect(refused.result?.['isError']).toBe(true)
    expect(envelopeOf(refused).code).toBe('ERR_BUSY')
    peer.host.waiting[0]!.release()
    await peer.next((message) => message.id === 'w0')
    expect((await call(peer, 'ping')).result).toHaveProperty('structuredContent.pong', true)
  })

  it('that arrive together leave together', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    const before = peer.writes()
    const ids = Array.from({ length: 16 }, (_, index) => `b${index}`)
    peer.send(...ids.map((id) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'ping' } })))
    await Promise.all(ids.map((id) => peer.next((message) => message.id === id)))
    expect(peer.writes() - before).toBe(1)
  })
})

describe('what is not a plain call', () => {
  it('gets the answer JSON-RPC prescribes and leaves the connection alive', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    peer.write('this is not JSON\n\n')
    expect((await peer.next((message) => message.id === null)).error?.code).toBe(-32700)
    peer.send({ jsonrpc: '1.0', id: 'old', method: 'tools/call', params: { name: 'ping' } })
    expect((await peer.next((message) => message.id === 'old')).error?.code).toBe(-32600)
    peer.send({ jsonrpc: '2.0', id: 'extra', method: 'tools/call', params: { name: 'ping' }, more: 1 })
    expect((await peer.next((message) => message.id === 'extra')).error?.code).toBe(-32600)
    expect((await call(peer, 'ping', ['not', 'an', 'object'])).error).toBeDefined()
    expect((await peer.request('tools/call', { arguments: {} })).error).toBeDefined()
    expect((await peer.request('no/such/method')).error?.code).toBe(-32601)
    expect((await call(peer, 'ping')).result).toBeDefined()
  })

  it('over the size limit is refused by its id, and the next line is served', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    const padding = 'x'.repeat(limits.messageBytesMax)
    const params = { name: 'echo', arguments: { text: padding } }
    peer.send({ jsonrpc: '2.0', id: 'first', method: 'tools/call', params })
    peer.send({ method: 'tools/call', params, jsonrpc: '2.0', id: 41 })
    for (const id of ['first', 41]) {
      const { error } = await peer.next((message) => message.id === id)
      expect(error).toMatchObject({ code: -32600, data: { code: 'ERR_TOO_LARGE' } })
    }
    expect((await call(peer, 'ping')).result).toBeDefined()
  })

  it('finds the id of an oversized message only where it is certain', () => {
    expect(idAtTheEnds('{"jsonrpc":"2.0","id":7,"method"', '')).toBe(7)
    expect(idAtTheEnds('{"method":"tools/call","params":{"id":7,', '"x"},"jsonrpc":"2.0","id":"a\\"b"}')).toBe('a"b')
    expect(idAtTheEnds('{"params":{"id":7,', '"id":8}}')).toBeNull()
  })

  it('as a batch is served in revision 2025-03-26 and refused in later ones', async () => {
    const peer = createLinePeer()
    await peer.initialize('2025-03-26')
    peer.send([
      { jsonrpc: '2.0', id: 'a', method: 'tools/call', params: { name: 'ping' } },
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 'b', method: 'ping' },
    ])
    await peer.next((message) => message.id === 'b')
    const batch = peer.received.find((message) => Array.isArray(message)) as Message[]
    expect(batch.map((message) => message.id).sort()).toEqual(['a', 'b'])

    const later = createLinePeer()
    await later.initialize('2025-11-25')
    later.send([{ jsonrpc: '2.0', id: 'a', method: 'ping' }])
    expect((await later.next((message) => message.id === null)).error?.code).toBe(-32600)
  })
})

describe('the tool list', () => {
  it('is told to have changed, and is then the new one', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    await peer.request('tools/list')
    peer.host.addTool('later')
    await peer.next((message) => message.method === 'notifications/tools/list_changed')
    expect(toolNames(await peer.request('tools/list'))).toContain('later')
  })

  it('comes in pages whose cursors lead through every tool once; any other cursor is refused', async () => {
    const peer = createLinePeer({ sampleHost: createSampleHost(2 * limits.toolListPageSize) })
    await peer.initialize()
    const names: string[] = []
    let cursor: unknown
    do {
      const page = await peer.request('tools/list', cursor === undefined ? {} : { cursor })
      expect(toolNames(page).length).toBeLessThanOrEqual(limits.toolListPageSize)
      names.push(...toolNames(page))
      cursor = page.result?.['nextCursor']
    } while (cursor !== undefined)
    expect(new Set(names).size).toBe(names.length)
    expect(names).toHaveLength(2 * limits.toolListPageSize + 7)
    for (const bad of ['', 'nonsense', Buffer.from('after:gone').toString('base64url')]) {
      expect((await peer.request('tools/list', { cursor: bad })).error?.code).toBe(-32602)
    }
  })

  it('has safe names for a client that needs them, unless the connection says otherwise', async () => {
    const namesFor = async (clientName: string, safeNames?: boolean): Promise<string[]> => {
      const peer = createLinePeer(safeNames === undefined ? {} : { caller: { safeNames } })
      await peer.initialize('2025-11-25', clientName)
      return toolNames(await peer.request('tools/list'))
    }
    expect(await namesFor('claude-ai')).toContain('fs_read')
    expect(await namesFor('my-own-client')).toContain('fs.read')
    expect(await namesFor('claude-ai', false)).toContain('fs.read')
    expect(await namesFor('my-own-client', true)).toContain('fs_read')
  })

  it('announces changes to the subscriptions of the stateless revision and to nobody else there', async () => {
    const peer = createLinePeer()
    await modernCall(peer, 'ping')
    peer.host.addTool('unheard')
    const listen = { _meta: modernMeta, notifications: { toolsListChanged: true } }
    peer.send({ jsonrpc: '2.0', id: 'sub', method: 'subscriptions/listen', params: listen })
    await peer.next((message) => message.method === 'notifications/subscriptions/acknowledged')
    peer.host.addTool('heard')
    const note = await peer.next((message) => message.method === 'notifications/tools/list_changed')
    expect(note.params?.['_meta']).toEqual({ 'io.modelcontextprotocol/subscriptionId': 'sub' })
    await peer.transport.close(0)
    const finalizer = await peer.next((message) => message.id === 'sub')
    expect(finalizer.result).toMatchObject({ resultType: 'complete' })
  })
})

describe('the end of a connection', () => {
  it('by the client lets calls under way finish', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    peer.send({ jsonrpc: '2.0', id: 'w', method: 'tools/call', params: { name: 'wait' } })
    await peer.host.whenWaiting(1)
    peer.endInput()
    peer.host.waiting[0]!.release()
    expect((await peer.next((message) => message.id === 'w')).result).toHaveProperty('structuredContent.waited', true)
    await peer.session.closed
  })

  it('by the client also answers what was piped in before', async () => {
    const peer = createLinePeer()
    const handshake = peer.initialize()
    const list = peer.request('tools/list')
    peer.endInput()
    await Promise.all([handshake, list, peer.session.closed])
  })

  it('by the transport finishes the calls that finish within the grace', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    peer.send({ jsonrpc: '2.0', id: 'w', method: 'tools/call', params: { name: 'wait' } })
    await peer.host.whenWaiting(1)
    const closing = peer.transport.close(60_000)
    const late = await call(peer, 'ping')
    expect(envelopeOf(late)).toMatchObject({ code: 'ERR_SHUTTING_DOWN', details: { started: false } })
    peer.host.waiting[0]!.release()
    await closing
    await peer.session.closed
    const reply = await peer.next((message) => message.id === 'w')
    expect(reply.result).toHaveProperty('structuredContent.waited', true)
  })

  it('by the transport fails the calls that do not finish within the grace, and aborts them', async () => {
    const peer = createLinePeer()
    await peer.initialize()
    peer.send({ jsonrpc: '2.0', id: 'w', method: 'tools/call', params: { name: 'wait' } })
    await peer.host.whenWaiting(1)
    await peer.transport.close(0)
    const reply = await peer.next((message) => message.id === 'w')
    expect(envelopeOf(reply)).toMatchObject({ code: 'ERR_SHUTTING_DOWN', details: { started: true } })
    expect(peer.host.waiting[0]!.signal.aborted).toBe(true)
  })
})
