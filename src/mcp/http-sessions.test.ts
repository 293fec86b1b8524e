import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createSampleHost, type SampleHost } from '../../test/support/sample-host.ts'
import { limits } from '../contract/limits.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import { type Logger, silentLogger } from '../kernel/logger.ts'
import type { Presence } from '../tools/runtime/presence.ts'
import { createMcpTransport } from './create-mcp-transport.ts'

const perIdentity = limits.httpSessionsPerIdentityMax
/** What is left to those for whom nothing is kept. */
const shared = limits.httpSessionsMax - 2 * limits.httpSessionsReserved
const jsonHeaders = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
const initialize = {
  jsonrpc: '2.0',
  id: 'first',
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}

type Peer = Readonly<{
  host: SampleHost
  clock: { ms: number }
  debugged: string[]
  initialize(who: string): Promise<Response>
  /** The id of a session in which nothing came after `initialize`. */
  open(who: string): Promise<string>
  openMany(who: string, count: number): Promise<string[]>
  /** The status of a request in the session; using it once makes it a used one. */
  use(who: string, session: string, tool?: string): Promise<number>
  listen(who: string, session: string): Promise<IncomingMessage>
  /** The key is gone. */
  end(who: string): void
  /** Keys that have something open. */
  watched(): string[]
}>

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

const principalOf = ({ headers }: IncomingMessage): Principal => {
  const who = String(headers['x-test-principal'])
  if (who === 'owner') return localOwner
  const tier = who === 'operator' ? 'operator' : 'user'
  return { ...localOwner, tier, kind: 'key', actor: who, keyId: `key_${who}` }
}

async function createPeer(): Promise<Peer> {
  const host = createSampleHost()
  const clock = { ms: 0 }
  const debugged: string[] = []
  const logger: Logger = { ...silentLogger, debug: (message) => debugged.push(message) }
  const listeners: Parameters<Presence['onRevoked']>[0][] = []
  const watched: string[] = []
  const presence: Presence = {
    onRevoked(listener) {
      listeners.push(listener)
      return () => {}
    },
    watch({ keyId = 'owner' }) {
      watched.push(keyId)
      return () => void watched.splice(watched.indexOf(keyId), 1)
    },
  }
  const transport = createMcpTransport({
    presence,
    host,
    version: '1.2.3',
    logger,
    clock: { nowMs: () => clock.ms, monotonicMs: () => clock.ms },
  })
  const server = createServer((req, res) => transport.handleHttp(req, res, { principal: principalOf(req) }))
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`

  const headersFor = (who: string, session?: string) => ({
    ...jsonHeaders,
    'x-test-principal': who,
    ...(session === undefined ? {} : { 'mcp-session-id': session }),
  })
  const post = (body: object, headers: Record<string, string>) =>
    fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  const open = async (who: string): Promise<string> => {
    const response = await post(initialize, headersFor(who))
    await response.text()
    expect(response.status).toBe(200)
    return response.headers.get('mcp-session-id')!
  }
  return {
    host,
    clock,
    debugged,
    initialize: (who) => post(initialize, headersFor(who)),
    open,
    async openMany(who, count) {
      const sessions: string[] = []
      for (let opened = 0; opened < count; opened++) sessions.push(await open(who))
      return sessions
    },
    async use(who, session, tool = 'ping') {
      const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: {} } }
      const response = await post(call, headersFor(who, session))
      await response.text()
      return response.status
    },
    listen(who, session) {
      const req = httpRequest(url, { headers: { ...headersFor(who, session), accept: 'text/event-stream' } })
      req.on('error', () => {})
      req.end()
      return new Promise((resolve) => req.once('response', resolve))
    },
    end(who) {
      for (const listener of listeners) listener(localOwner.tenant, `key:key_${who}`)
    },
    watched: () => [...new Set(watched)],
  }
}

describe('one identity that opens many sessions', () => {
  it('locks nobody out, itself included', async () => {
    const peer = await createPeer()
    const victim = await peer.open('victim')
    await peer.use('victim', victim)
    await peer.openMany('attacker', limits.httpSessionsMax + 1)
    expect(await peer.use('victim', victim)).toBe(200)
    expect(await peer.use('victim', await peer.open('victim'))).toBe(200)
    expect(await peer.use('attacker', await peer.open('attacker'))).toBe(200)
    expect(peer.debugged).toContain('HTTP session ended to free capacity')
  })

  it('loses the one that was used longest ago', async () => {
    const peer = await createPeer()
    const sessions = await peer.openMany('owner', perIdentity)
    for (const session of sessions) {
      peer.clock.ms++
      await peer.use('owner', session)
    }
    peer.clock.ms++
    await peer.use('owner', sessions[0]!)
    await peer.open('owner')
    expect(await peer.use('owner', sessions[1]!)).toBe(404)
    expect(await peer.use('owner', sessions[0]!)).toBe(200)
    expect(await peer.use('owner', sessions[2]!)).toBe(200)
  })

  it('loses one that was never used before any other', async () => {
    const peer = await createPeer()
    const used = await peer.open('owner')
    await peer.use('owner', used)
    peer.clock.ms++
    const unused = await peer.openMany('owner', perIdentity - 1)
    await peer.open('owner')
    expect(await peer.use('owner', unused[0]!)).toBe(404)
    expect(await peer.use('owner', used)).toBe(200)
  })

  it('keeps those with a call under way or an open stream, and is refused when it has no others', async () => {
    const peer = await createPeer()
    const [calling, ...listening] = await peer.openMany('busy', perIdentity)
    const call = peer.use('busy', calling!, 'wait')
    await peer.host.whenWaiting(1)
    for (const session of listening) await peer.listen('busy', session)
    const refused = await peer.initialize('busy')
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).not.toBeNull()
    expect(await refused.json()).toMatchObject({ id: 'first', error: { message: expect.stringContaining('sessions') } })
    expect((await peer.initialize('other')).status).toBe(200)
    peer.host.waiting[0]!.release()
    expect(await call).toBe(200)
    expect((await peer.initialize('busy')).status).toBe(200)
  })
})

describe('all identities together', () => {
  it('lose a session of the one that holds the most', async () => {
    const peer = await createPeer()
    const small = await peer.open('small')
    await peer.use('small', small)
    peer.clock.ms++
    const largest = await peer.openMany('largest', perIdentity)
    const others = shared - perIdentity - 1
    for (let opened = 0; opened < others; opened += perIdentity - 1) {
      await peer.openMany(`key ${opened}`, Math.min(perIdentity - 1, others - opened))
    }
    const newcomer = await peer.open('newcomer')
    expect(await peer.use('newcomer', newcomer)).toBe(200)
    expect(await peer.use('small', small)).toBe(200)
    expect(await peer.use('largest', largest[0]!)).toBe(404)
    expect(await peer.use('largest', largest[1]!)).toBe(200)
  })
})

describe('identities that listen in all their sessions', () => {
  const crowd = async (peer: Peer, retained: number) => {
    for (let left = shared; left > 0; left -= retained) {
      const who = `key ${left}`
      for (const session of await peer.openMany(who, Math.min(retained, left))) await peer.listen(who, session)
    }
  }

  it('lock out neither the owner nor an operator', async () => {
    const peer = await createPeer()
    await crowd(peer, 1)
    expect((await peer.initialize('another-user')).status).toBe(503)
    for (const who of ['operator', 'owner']) {
      const sessions = await peer.openMany(who, perIdentity)
      expect(await peer.use(who, sessions[0]!)).toBe(200)
    }
  })

  it('make room for a caller that has fewer, and for nobody who has as many', async () => {
    const peer = await createPeer()
    await crowd(peer, perIdentity)
    expect(await peer.use('late', await peer.open('late'))).toBe(200)
    expect((await peer.initialize(`key ${shared}`)).status).toBe(503)
  })
})

describe('the sessions of a key', () => {
  it('end with it, their streams and calls too', async () => {
    const peer = await createPeer()
    const [gone, other] = [await peer.open('gone'), await peer.open('other')]
    const stream = await peer.listen('gone', gone)
    const ended = new Promise((resolve) =>
      stream
        .on('error', () => {})
        .on('close', resolve)
        .resume(),
    )
    const call = peer.use('gone', gone, 'wait')
    await peer.host.whenWaiting(1)
    peer.end('gone')
    await ended
    expect(peer.host.waiting[0]!.signal.aborted).toBe(true)
    peer.host.waiting[0]!.release()
    expect(await call).toBe(200)
    expect(await peer.use('gone', gone)).toBe(404)
    expect(await peer.use('other', other)).toBe(200)
    expect(peer.watched()).toEqual(['key_other'])
  })
})

describe('a session in which nothing came after initialize', () => {
  it('ends soon', async () => {
    const peer = await createPeer()
    const [used, unused] = [await peer.open('owner'), await peer.open('owner')]
    await peer.use('owner', used)
    peer.clock.ms += limits.httpSessionUnusedMs + 1
    expect(await peer.use('owner', unused)).toBe(404)
    expect(await peer.use('owner', used)).toBe(200)
  })
})
