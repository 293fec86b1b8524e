import { once } from 'node:events'
import { request } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  type HttpTransportApp,
  openHttpTransportApp,
  type ServedTransport,
} from '../../test/support/http-transport-peer.ts'
import type { CallOptions, ToolAnswer, ToolHost } from '../tools/runtime/tool-host.ts'
import type { HttpTransport } from './create-http-transport.ts'
import type { RelayedPeer } from './peer-address.ts'

let peer: HttpTransportApp
const listeners: Server[] = []
beforeAll(async () => {
  peer = await openHttpTransportApp()
})
afterEach(() => {
  for (const listener of listeners.splice(0)) listener.close()
})
afterAll(() => peer.close())

/** A host whose calls wait until the test lets them go. */
function heldHost() {
  const started = Promise.withResolvers<CallOptions | undefined>()
  const answer = Promise.withResolvers<ToolAnswer>()
  const host: ToolHost = {
    ...peer.app.host,
    call(_caller, _name, _args, options) {
      started.resolve(options)
      return answer.promise
    },
  }
  return {
    host,
    started: started.promise,
    release: (json: string) => answer.resolve({ json, isError: false }),
  }
}

const ping = (at: Pick<ServedTransport, 'url'>) => fetch(`${at.url}/v1/tools/server_ping`, { method: 'POST' })

async function idleConnection(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  await once(socket, 'connect')
  return socket
}

describe('closing', () => {
  it('finishes the call under way, ends idle connections and takes no new ones', async () => {
    const held = heldHost()
    const at = await peer.serve({ host: held.host })
    const idle = await idleConnection(at.port)
    const idleGone = once(idle, 'close')
    const reply = ping(at)
    await held.started
    const closed = at.transport.close(60_000)
    await idleGone
    await expect(fetch(`${at.url}/health`)).rejects.toThrow()
    held.release('{"ok":true}')
    const response = await reply
    expect([response.status, await response.text()]).toEqual([200, '{"ok":true}'])
    expect(response.headers.get('connection')).toBe('close')
    await closed
  })

  it('sends a long answer whole', async () => {
    const held = heldHost()
    const at = await peer.serve({ host: held.host })
    const reply = ping(at)
    await held.started
    const long = JSON.stringify('x'.repeat(24_000_000))
    held.release(long)
    // The answer is written by now, but far more of it is left than a socket buffers.
    const response = await reply
    const closed = at.transport.close(60_000)
    expect((await response.text()).length).toBe(long.length)
    await closed
  })

  it('fails what does not end in time, and cancels it', async () => {
    const held = heldHost()
    const at = await peer.serve({ host: held.host })
    const reply = ping(at)
    const options = await held.started
    await at.transport.close(0)
    const response = await reply
    const body = (await response.json()) as { error: { code: string } }
    expect([response.status, body.error.code]).toEqual([503, 'ERR_SHUTTING_DOWN'])
    expect(response.headers.get('retry-after')).not.toBeNull()
    expect(options?.signal?.aborted).toBe(true)
  })

  it('refuses the next request on a connection whose answer is still out', async () => {
    const held = heldHost()
    const at = await peer.serve({ host: held.host })
    const socket = connect(at.port, '127.0.0.1')
    socket.on('error', () => {})
    const ended = once(socket, 'close')
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    socket.write('POST /v1/tools/server_ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n')
    await held.started
    const closed = at.transport.close(60_000)
    const refused = once(at.transport.server, 'request')
    socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await refused
    held.release('{"ok":true}')
    await Promise.all([closed, ended])
    expect(text).toContain('{"ok":true}')
    expect(text).not.toContain('"mode"')
  })

  it('can be asked for twice', async () => {
    const at = await peer.serve()
    await Promise.all([at.transport.close(0), at.transport.close(0)])
  })
})

describe('a client that goes away', () => {
  it('cancels its call', async () => {
    const held = heldHost()
    const at = await peer.serve({ host: held.host })
    const req = request(`${at.url}/v1/tools/server_ping`, { method: 'POST' })
    req.on('error', () => {})
    req.end()
    const options = await held.started
    const aborted = once(options!.signal!, 'abort')
    req.destroy()
    await aborted
    held.release('{}')
  })
})

describe('a connection that another process accepted', () => {
  /** Accepts on a port of its own and hands every connection over, as a process does that does not own the state. */
  async function relay(transport: HttpTransport, input: RelayedPeer): Promise<string> {
    const listener = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) =>
      transport.accept(socket, input),
    )
    listeners.push(listener)
    listener.listen(0, '127.0.0.1')
    await once(listener, 'listening')
    return `http://127.0.0.1:${(listener.address() as { port: number }).port}`
  }

  it.each([
    ['of this machine is the owner', { remoteAddress: '127.0.0.1' }, 200],
    ['of another machine needs a key', { remoteAddress: '192.0.2.7' }, 401],
    ['of an unknown place needs a key', { remoteAddress: '' }, 401],
    ['through a port that demands keys needs one', { remoteAddress: '127.0.0.1', requireKeys: true }, 401],
  ])('%s', async (_, input, status) => {
    const url = await relay(peer.transport(), input)
    expect((await ping({ url })).status).toBe(status)
  })

  it('is watched and closed like any other', async () => {
    const held = heldHost()
    const transport = peer.transport({ host: held.host })
    const url = await relay(transport, { remoteAddress: '127.0.0.1' })
    const reply = ping({ url })
    await held.started
    expect(await new Promise((resolve) => transport.server.getConnections((_, count) => resolve(count)))).toBe(0)
    await transport.close(0)
    expect((await reply).status).toBe(503)
  })

  it('is cut off when it sends its headers too slowly', async () => {
    const transport = peer.transport()
    Object.assign(transport.server, { headersTimeout: 1, connectionsCheckingInterval: 5 })
    const url = new URL(await relay(transport, { remoteAddress: '127.0.0.1' }))
    const socket = connect(Number(url.port), '127.0.0.1')
    socket.on('error', () => {})
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    socket.write('GET /health HTTP/1.1\r\n')
    await once(socket, 'close')
    expect(text).toMatch(/^HTTP\/1\.1 408 /)
  })
})
