import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  addElsewhere,
  addHostAddress,
  dial,
  hostNetwork,
  type NetworkBench,
  openNetworkBench,
  privileges,
  type Workspace,
} from '../../../test/support/network-bench.ts'
import { serveNames } from '../../../test/support/public-side.ts'
import { closedNetwork, type NetworkSpec } from '../../domains/workspaces/backend.ts'
import type { NetworkCapabilities } from './network-hub.ts'

/** Needs root, to give the machine addresses that stand for the internet. */
describe.each(privileges)('the host-network helper as %s', (privilege) => {
  const isAsRoot = privilege === 'root'
  const somewhere = isAsRoot ? '203.0.113.27' : '203.0.113.28'
  const ownAddress = isAsRoot ? '203.0.113.37' : '203.0.113.38'
  const hostBefore = hostNetwork()
  const closers: (() => void)[] = []
  const servers: Server[] = []
  let bench: NetworkBench
  let one: Workspace
  let port = 0
  let number = 1
  const start = (spec?: Partial<NetworkSpec>): Promise<Workspace> => bench.start(`10.99.2.${++number}`, spec)
  const set = ({ id }: Workspace, spec: Partial<NetworkSpec>): Promise<boolean> =>
    bench.hub.ask('update', id, { ...closedNetwork, ...spec })

  beforeAll(async () => {
    closers.push(addElsewhere(somewhere), addHostAddress(ownAddress))
    port = await listenOnHost(servers, '0.0.0.0', 'host')
    bench = await openNetworkBench(privilege, { uplinkStartMs: 100 })
    await bench.startHostNetwork()
    one = await start()
  })
  afterAll(async () => {
    await bench.close()
    for (const server of servers) server.close()
    for (const close of closers) close()
    expect(hostNetwork()).toBe(hostBefore)
  })

  it('is seen to work', async () => {
    const capabilities = await bench.hub.ask<NetworkCapabilities>('probe')
    for (const name of ['port_forward', 'allowed_domains'] as const) {
      expect(capabilities[name]).toMatchObject({ enforced: true })
    }
  })

  it('leads to other machines, and never to this one, by whatever address it has now', async () => {
    const reached = (address: string) => bench.hub.ask('dialFromHost', address, port)
    expect(await reached(somewhere)).toBe('host:hello')
    for (const own of ['127.0.0.1', '127.8.8.8', '0.0.0.0', '::1', '::', `::ffff:${somewhere}`, ownAddress]) {
      expect(await reached(own), own).toBeNull()
    }
    const release = addHostAddress(somewhere)
    expect(await reached(somewhere)).toBeNull()
    release()
    // The route was removed with the address.
    addElsewhere(somewhere)
    expect(await reached(somewhere)).toBe('host:hello')
  })

  it('asks the name server that it is told, over a connection where an answer does not fit', async () => {
    const addresses = Array.from({ length: 100 }, (_, index) => `198.51.100.${index}`)
    await using _names = await serveNames(somewhere, { 'one.test': ['198.51.100.7'], 'many.test': addresses })
    expect(await bench.hub.ask('resolve', 'one.test', somewhere)).toEqual(['198.51.100.7'])
    expect(await bench.hub.ask('resolve', 'absent.test', somewhere)).toEqual([])
    expect(await bench.hub.ask('resolve', 'many.test', somewhere)).toEqual(addresses)
  })

  it('forwards a port into a workspace without a link, over changes of the policy, until it is taken away', async () => {
    await one.inside.ask('listen', 8080, 'one')
    const hostPort = await bench.hub.ask<number>('reserveHostPort', null)
    const forwards = [{ hostPort, guestPort: 8080 }]
    await set(one, { forwards })
    expect(Object.keys(await one.inside.ask<object>('interfaces')).filter((name) => name !== 'lo')).toEqual([])
    const connection = await dialFromHost(hostPort)
    expect(await exchange(connection, 'hello')).toBe('one:hello')
    await set(one, { forwards, allowInternet: true })
    expect(await exchange(connection, 'hello')).toBe('one:hello')
    await bench.hub.ask('attach', { id: one.id, ip: one.ip, pid: one.inside.pid }, { ...closedNetwork, forwards })
    expect(await exchange(connection, 'hello')).toBe('one:hello')
    const other = await start({ allowInterVm: true })
    expect(await dial(other, one.ip, 8080)).toHaveProperty('refused')
    await set(one, { allowInternet: true })
    expect(await exchange(connection, 'hello')).toBe('closed')
    expect(await dialFromHost(hostPort).catch((error: NodeJS.ErrnoException) => error.code)).toBe('ECONNREFUSED')
  })

  it('reaches servers that listen on localhost alone, in either family, and resets where nobody listens', async () => {
    await one.inside.ask('listen', 8081, 'four', '127.0.0.1')
    await one.inside.ask('listen', 8082, 'six', '::1')
    const forwards: NetworkSpec['forwards'] = await Promise.all(
      [8081, 8082, 8083].map(async (guestPort) => ({
        guestPort,
        hostPort: await bench.hub.ask<number>('reserveHostPort', null),
      })),
    )
    await set(one, { forwards })
    const said: string[] = []
    for (const { hostPort } of forwards) {
      // A reset may come before or after the connection is seen to be open.
      const closed = ({ code }: NodeJS.ErrnoException): string => (code === 'ECONNRESET' ? 'closed' : String(code))
      said.push(await dialFromHost(hostPort).then((socket) => exchange(socket, 'hello'), closed))
    }
    expect(said).toEqual(['four:hello', 'six:hello', 'closed'])
  })

  it('lets as many connect at once as the workspace takes', async () => {
    await one.inside.ask('listen', 8084, 'one')
    const hostPort = await bench.hub.ask<number>('reserveHostPort', null)
    await set(one, { forwards: [{ hostPort, guestPort: 8084 }] })
    const connections = await Promise.all(Array.from({ length: 200 }, () => dialFromHost(hostPort)))
    const answers = await Promise.all(connections.map((connection, index) => exchange(connection, String(index))))
    expect(answers).toEqual(connections.map((_, index) => `one:${index}`))
  })

  it('refuses a host port that another workspace or program has, and keeps what was', async () => {
    const mine = await bench.hub.ask<number>('reserveHostPort', null)
    const next = await bench.hub.ask<number>('reserveHostPort', null)
    expect(next).not.toBe(mine)
    await one.inside.ask('listen', 8085, 'one')
    await set(one, { forwards: [{ hostPort: mine, guestPort: 8085 }] })
    const other = await start()
    const refused = { code: 'ERR_ALREADY_EXISTS', message: expect.stringContaining('host_port') }
    await expect(set(other, { forwards: [{ hostPort: mine, guestPort: 80 }] })).rejects.toMatchObject(refused)
    const both = [
      { hostPort: next, guestPort: 80 },
      { hostPort: port, guestPort: 80 },
    ]
    await expect(set(other, { forwards: both })).rejects.toMatchObject(refused)
    expect(await bench.hub.ask('reserveHostPort', next)).toBe(next)
    expect(await bench.hub.ask('reserveHostPort', mine)).toBeNull()
    expect(await bench.hub.ask('reserveHostPort', port)).toBeNull()
    expect(await exchange(await dialFromHost(mine), 'hello')).toBe('one:hello')
    await bench.hub.ask('detach', one.id)
    expect(await bench.hub.ask('reserveHostPort', mine)).toBe(mine)
    await bench.hub.ask('attach', { id: one.id, ip: one.ip, pid: one.inside.pid }, closedNetwork)
  })
})

function listenOnHost(servers: Server[], host: string, name: string): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer((socket) => {
      socket.on('data', (data) => socket.write(`${name}:${String(data)}`))
      socket.on('error', () => {})
    })
    servers.push(server)
    server.listen(0, host, () => resolve((server.address() as { port: number }).port))
  })
}

function dialFromHost(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.on('connect', () => resolve(socket))
    socket.on('error', reject)
  })
}

function exchange(socket: Socket, text: string): Promise<string> {
  return new Promise((resolve) => {
    if (socket.destroyed) return resolve('closed')
    socket.once('data', (data) => resolve(String(data)))
    socket.once('close', () => resolve('closed'))
    socket.write(text)
  })
}
