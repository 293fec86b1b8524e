import { createSocket, type Socket as Datagrams } from 'node:dgram'
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  addHostAddress,
  dial,
  dialOpen,
  type NetworkBench,
  openNetworkBench,
  privileges,
  say,
  type Workspace,
} from '../../../test/support/network-bench.ts'
import { closedNetwork, type NetworkSpec } from '../../domains/workspaces/backend.ts'
import type { NetworkCapabilities } from './network-hub.ts'

/** Needs root, to give the machine addresses that stand for the internet. */
describe.each(privileges)('the way out of the hub as %s', (privilege) => {
  const somewhere = privilege === 'root' ? '203.0.113.7' : '203.0.113.8'
  const ownAddress = privilege === 'root' ? '203.0.113.17' : '203.0.113.18'
  const privateAddress = privilege === 'root' ? '192.168.213.7' : '192.168.213.8'
  const closers: (() => void)[] = []
  const servers: Server[] = []
  let bench: NetworkBench
  let one: Workspace
  let port = 0
  let number = 1
  const start = (spec?: Partial<NetworkSpec>): Promise<Workspace> => bench.start(`10.99.1.${++number}`, spec)
  const set = ({ id }: Workspace, spec: Partial<NetworkSpec>): Promise<boolean> =>
    bench.hub.ask('update', id, { ...closedNetwork, ...spec })

  beforeAll(async () => {
    for (const address of [somewhere, ownAddress, privateAddress]) closers.push(addHostAddress(address))
    port = await listenOnHost(servers, '0.0.0.0', 0, 'host')
    bench = await openNetworkBench(privilege, { hostNetworkWaitMs: 100 })
    await bench.startUplink(somewhere)
    await bench.hub.ask('setHostNetwork', { hostAddresses: [ownAddress] })
    one = await start()
  })
  afterAll(async () => {
    await bench.close()
    for (const server of servers) server.close()
    for (const close of closers) close()
  })

  it('is seen to work', async () => {
    const capabilities = await bench.hub.ask<NetworkCapabilities>('probe')
    for (const name of ['network_policy', 'internet'] as const) {
      expect(capabilities[name]).toMatchObject({ enforced: true })
    }
  })

  it('leads to public addresses while the policy says so, and cuts what is open when it no longer does', async () => {
    expect(await dial(one, somewhere, port)).toHaveProperty('refused')
    await set(one, { allowInternet: true })
    const socket = await dialOpen(one, somewhere, port)
    expect(await say(one, socket, 'hello')).toBe('host:hello')
    await set(one, { allowInterVm: true })
    expect(await say(one, socket, 'hello')).toBe('ECONNRESET')
    expect(await dial(one, somewhere, port)).toEqual({ refused: 'ECONNREFUSED' })
  })

  it('never leads to the host, private networks or metadata', async () => {
    await set(one, { allowInternet: true, allowInterVm: true })
    await dialOpen(one, somewhere, port)
    const closed = [ownAddress, '10.0.2.2', '10.0.2.100', '10.99.0.1', '10.99.0.250', '169.254.169.254', privateAddress]
    for (const address of [...closed, '172.16.0.1', '100.64.0.1', '10.1.2.3', '224.0.0.1', '255.255.255.255']) {
      expect(await dial(one, address, port), address).toHaveProperty('refused')
    }
    // The hub's own side, where the proxy runs, cannot reach it either.
    await expect(bench.hub.ask('dial', ownAddress, port)).resolves.toBe('ECONNREFUSED')
    await expect(bench.hub.ask('dial', privateAddress, port)).resolves.toBe('ECONNREFUSED')
    await expect(bench.hub.ask('dial', somewhere, port)).resolves.toBe('connected')
  })

  it('closes an address that turns out to be the host’s', async () => {
    await set(one, { allowInternet: true })
    const socket = await dialOpen(one, somewhere, port)
    await bench.hub.ask('setHostNetwork', { hostAddresses: [ownAddress, somewhere] })
    expect(await say(one, socket, 'hello')).toBe('ECONNRESET')
    await bench.hub.ask('setHostNetwork', { hostAddresses: [ownAddress] })
    await dialOpen(one, somewhere, port)
  })

  it('asks another resolver than the host’s when it is told to, at a private address too, and only for names', async () => {
    const nameServer = await answerOn(privateAddress)
    await bench.hub.ask('setHostNetwork', { hostAddresses: [ownAddress, privateAddress], resolver: privateAddress })
    await set(one, { allowInternet: true })
    expect(await one.inside.ask('datagramAsk', '10.99.0.1', 53, 'a question')).toBe('answer to a question')
    for (const other of [privateAddress, '10.0.2.3']) expect(await dial(one, other, 53)).toHaveProperty('refused')
    expect(await dial(one, privateAddress, port)).toHaveProperty('refused')
    await expect(bench.hub.ask('dial', privateAddress, port)).resolves.toBe('ECONNREFUSED')
    await bench.hub.ask('setHostNetwork', { hostAddresses: [ownAddress] })
    nameServer.close()
  })

  it('resolves names for those with internet only', async () => {
    const nameServer = await answerOn(somewhere)
    await set(one, { allowInternet: true })
    expect(await one.inside.ask('datagramAsk', '10.99.0.1', 53, 'a question')).toBe('answer to a question')
    await set(one, { allowInternet: true, allowedDomains: ['example.org'] })
    expect(await one.inside.ask('datagramAsk', '10.99.0.1', 53, 'a question')).toBe('EHOSTUNREACH')
    nameServer.close()
  })

  it('opens again what the policy allows when slirp4netns was gone and is back', async () => {
    const target = await start({ allowInternet: true })
    await bench.stopUplink()
    expect(await dial(target, somewhere, port)).toHaveProperty('refused')
    await bench.startUplink(somewhere)
    const answers = async () => {
      const { socket } = await dial(target, somewhere, port)
      return socket === undefined ? 'refused' : await say(target, socket, 'hello')
    }
    await expect.poll(answers).toBe('host:hello')
  })
})

async function answerOn(address: string): Promise<Datagrams> {
  const socket = createSocket('udp4')
  socket.on('message', (message, from) => socket.send(`answer to ${String(message)}`, from.port, from.address))
  await new Promise<void>((resolve) => socket.bind(53, address, resolve))
  return socket
}

function listenOnHost(servers: Server[], host: string, port: number, name: string): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer((socket) => {
      socket.on('data', (data) => socket.write(`${name}:${String(data)}`))
      socket.on('error', () => {})
    })
    servers.push(server)
    server.listen(port, host, () => resolve((server.address() as { port: number }).port))
  })
}
