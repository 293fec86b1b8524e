import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { joinStreams } from './join-streams.ts'

/** Real sockets, where it matters how they close. */
let server: Server
const opened: Socket[] = []

beforeEach(async () => {
  server = createServer({ allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterEach(async () => {
  for (const socket of opened.splice(0)) socket.destroy()
  server.close()
  await once(server, 'close')
})

async function pair(): Promise<readonly [far: Socket, near: Socket]> {
  const accepted = once(server, 'connection')
  const far = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true })
  const [near] = (await accepted) as [Socket]
  for (const socket of [far, near]) socket.on('error', () => {})
  opened.push(far, near)
  return [far, near]
}

describe('joinStreams', () => {
  it('gives a slow client everything, though the upstream is gone', async () => {
    // In-memory streams: kernel buffers would take everything and hide a loss.
    const [client, nearClient] = duplexPair()
    const [upstream, nearUpstream] = duplexPair()
    joinStreams(nearClient, nearUpstream)
    client.end('request')
    expect(String(await buffer(upstream))).toBe('request')
    const gone = once(nearUpstream, 'close')
    const body = ['x'.repeat(client.readableHighWaterMark - 1), 'too much, ', 'last']
    for (const part of body) upstream.write(part)
    upstream.end()
    await gone
    expect(String(await buffer(client))).toBe(body.join(''))
    expect(nearClient.closed || (await once(nearClient, 'close'))).toBeTruthy()
  })

  it('passes on that a client has said all it has to say, and waits for the answer', async () => {
    const [client, nearClient] = await pair()
    const [upstream, nearUpstream] = await pair()
    joinStreams(nearClient, nearUpstream, 0)
    client.end('question')
    expect(String(await buffer(upstream))).toBe('question')
    upstream.end('answer')
    expect(String(await buffer(client))).toBe('answer')
  })

  it('breaks one side off when the other breaks off', async () => {
    const [client, nearClient] = await pair()
    const [upstream, nearUpstream] = await pair()
    joinStreams(nearClient, nearUpstream)
    client.resume()
    upstream.resetAndDestroy()
    await once(nearClient, 'close')
    expect(nearUpstream.destroyed).toBe(true)
  })

  it('hangs up on a client that holds on to a finished connection', async () => {
    const [client, nearClient] = await pair()
    const [upstream, nearUpstream] = await pair()
    joinStreams(nearClient, nearUpstream, 20)
    client.resume()
    upstream.end('bye')
    await once(nearClient, 'close')
    await (nearUpstream.closed || once(nearUpstream, 'close'))
    expect(client.writable).toBe(true)
  })
})
