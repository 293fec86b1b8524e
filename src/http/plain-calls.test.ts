import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type HttpTransportApp,
  mcpHeaders,
  openHttpTransportApp,
  type ServedTransport,
  send,
} from '../../test/support/http-transport-peer.ts'

/** A tool call that passes `node:http` by is judged and answered as one that does not. */
let peer: HttpTransportApp
let served: ServedTransport
beforeAll(async () => {
  peer = await openHttpTransportApp()
  served = await peer.serve()
})
afterAll(() => peer.close())

/** One connection that sends one request after the other, and how many of them `node:http` has seen. */
async function openConnection(at: ServedTransport) {
  const socket = connect(at.port, '127.0.0.1')
  socket.on('error', () => {})
  let seen = 0
  at.transport.server.on('request', (req) => {
    if (req.socket.remotePort === socket.localPort) seen++
  })
  const exchange = (head: readonly string[], body: string): Promise<string> =>
    new Promise((resolve, reject) => {
      let text = ''
      const onData = (chunk: Buffer): void => {
        text += chunk.toString('latin1')
        const [, length] = /content-length: (\d+)/i.exec(text) ?? []
        const start = text.indexOf('\r\n\r\n') + 4
        if (length === undefined || start === 3 || text.length < start + Number(length)) return
        socket.off('data', onData)
        resolve(text)
      }
      socket.on('data', onData).once('error', reject)
      const fields = ['POST /mcp HTTP/1.1', ...head, `Content-Length: ${Buffer.byteLength(body)}`]
      socket.write(`${fields.join('\r\n')}\r\n\r\n${body}`)
    })
  return { exchange, seen: () => seen, [Symbol.dispose]: () => void socket.destroy() }
}

const rpc = (method: string, params: object): string => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
const call = (name: string, args: object): string => rpc('tools/call', { name, arguments: args })
const initialize = rpc('initialize', {
  ...{ protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
})
const sessionOf = async (at: ServedTransport, more: Readonly<Record<string, string>> = {}): Promise<string> => {
  const init = { method: 'POST', headers: { ...mcpHeaders, ...more }, body: initialize }
  return (await send(at, '/mcp', init)).headers.get('mcp-session-id')!
}
const headOf = (at: ServedTransport, sessionId: string, ...more: readonly string[]): string[] => [
  `Host: 127.0.0.1:${at.port}`,
  ...Object.entries(mcpHeaders).map(([name, value]) => `${name}: ${value}`),
  `Mcp-Session-Id: ${sessionId}`,
  ...more,
]
const undated = (text: string): string => text.replace(/\r\nDate: .*\r\n/, '\r\n')
const statusOf = (text: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])

describe('a plain tool call', () => {
  it('is answered alike either way, whether it succeeds or fails', async () => {
    using connection = await openConnection(served)
    const head = headOf(served, await sessionOf(served))
    for (const body of [
      call('project_list', {}),
      call('task_get', { task_id: 'T-9999' }),
      call('task_list', { limit: 'ä' }),
      call('no_such_tool', {}),
    ]) {
      using fresh = await openConnection(served)
      const slow = await fresh.exchange(head, body)
      expect(fresh.seen()).toBe(1)
      await connection.exchange(head, body)
      const before = connection.seen()
      expect(undated(await connection.exchange(head, body))).toBe(undated(slow))
      expect(connection.seen()).toBe(before)
    }
    expect(connection.seen()).toBe(1)
  })

  it('is refused as any other if its key, its host, its page or its session is wrong', async () => {
    const keyed = await peer.serve({ requireKeys: true })
    const token = await peer.createKey({ name: 'plain', scopes: ['server:read'] })
    const authorization = `Bearer ${token}`
    const sessionId = await sessionOf(keyed, { authorization })
    const ping = call('server_ping', {})
    const good = headOf(keyed, sessionId, `Authorization: ${authorization}`)
    const without = (name: string, ...more: readonly string[]): string[] => [
      ...good.filter((line) => !line.startsWith(name)),
      ...more,
    ]
    for (const [head, status] of [
      [without('Authorization'), 401],
      [without('Authorization', `Authorization: Bearer ${token}x`), 401],
      [without('Host', 'Host: 127.0.0.1', 'Host: other.example'), 400],
      [[...good, 'Origin: http://other.example'], 403],
      [without('Mcp-Session-Id', 'Mcp-Session-Id: nobody'), 404],
      [without('content-type', 'content-type: text/plain'), 415],
    ] as const) {
      using connection = await openConnection(keyed)
      for (let turn = 0; turn < 2; turn++) expect(statusOf(await connection.exchange(good, ping))).toBe(200)
      expect(connection.seen()).toBe(1)
      expect([statusOf(await connection.exchange(head, ping)), head]).toEqual([status, head])
    }
  })

  it('is refused from the moment that its key is revoked', async () => {
    const keyed = await peer.serve({ requireKeys: true })
    const token = await peer.createKey({ name: 'brief', scopes: ['server:read'] })
    const authorization = `Bearer ${token}`
    const head = headOf(keyed, await sessionOf(keyed, { authorization }), `Authorization: ${authorization}`)
    using connection = await openConnection(keyed)
    for (let turn = 0; turn < 3; turn++)
      expect(statusOf(await connection.exchange(head, call('server_ping', {})))).toBe(200)
    expect(connection.seen()).toBe(1)
    await send(served, '/v1/tools/api_key_revoke', {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ key: 'brief' }) },
    })
    expect(statusOf(await connection.exchange(head, call('server_ping', {})))).toBe(401)
  })
})
