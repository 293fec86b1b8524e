import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { AppError } from '../../contract/app-error.ts'
import type { Capability, PortRange } from '../../domains/workspaces/backend.ts'
import { mustRun, type RunCommand } from '../run-command.ts'
import { uplinkAddress, uplinkDevice, uplinkGateway } from './addresses.ts'
import type { HostPorts } from './host-ports.ts'
import type { Programs } from './programs.ts'
import type { Sockets } from './sockets.ts'
import type { UplinkApi } from './uplink-api.ts'

const works = (reason: string): Capability => ({ enforced: true, reason })
const fails = (reason: string): Capability => ({ enforced: false, reason })

const TABLE = 'inet castellan_probe'
const CONNECT_TIMEOUT_MS = 3000

/** Creates a link, and verifies that an nftables rule closes a connection that works without it. */
export async function probePolicy(run: RunCommand, { ip, nft }: Programs): Promise<Capability> {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  try {
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await mustRun(run, [ip, 'link', 'add', 'probe0', 'type', 'veth', 'peer', 'name', 'probe1'])
    await mustRun(run, [ip, 'link', 'delete', 'dev', 'probe0'])
    const before = await connectOnce('127.0.0.1', port)
    const chain = `type filter hook output priority filter; ip daddr 127.0.0.1 tcp dport ${port} reject with tcp reset`
    await mustRun(run, [nft, '-f', '-'], `table ${TABLE} {\n  chain output { ${chain}; }\n}\n`)
    const during = await connectOnce('127.0.0.1', port)
    await mustRun(run, [nft, 'delete', 'table', ...TABLE.split(' ')])
    if (before === 'connected' && during === 'ECONNREFUSED') {
      return works('nftables in network namespaces: a rule was seen to refuse a connection.')
    }
    return fails(`nftables accepts rules but does not apply them (${before}, then ${during}). Use another kernel.`)
  } catch (error) {
    return fails(`Links or nftables do not work here: ${String((error as Error).message)}`)
  } finally {
    server.close()
  }
}

/** Verifies that slirp4netns answers a packet, which it does even if the host has no internet. */
export async function probeInternet(uplink: UplinkApi): Promise<Capability> {
  try {
    await uplink.hello()
  } catch (error) {
    return fails(messageOf(error))
  }
  const addresses = networkInterfaces()[uplinkDevice] ?? []
  if (!addresses.some(({ address }) => address === uplinkAddress)) {
    return fails(`slirp4netns runs, but the device ${uplinkDevice} is not up. See its log.`)
  }
  const answer = await connectOnce(uplinkGateway, 9)
  if (answer === 'ETIMEDOUT') return fails('slirp4netns runs but does not answer packets. See its log.')
  return works('slirp4netns answers. What can be reached is what the host itself can reach.')
}

/** Listens on a port of the host for a moment. */
export async function probeForwards(
  hostPorts: HostPorts,
  taken: ReadonlySet<number>,
  range: PortRange,
): Promise<Capability> {
  try {
    const port = await hostPorts.find(undefined, taken, range)
    if (port === undefined) return fails(`No port of the host from ${range.first} to ${range.last} can be listened on.`)
    return works("A port of the host's loopback address was listened on.")
  } catch (error) {
    return fails(messageOf(error))
  }
}

/** Whether the host-network helper answers, through which named hosts are reached. */
export async function probeDomains(sockets: Pick<Sockets, 'requireHost'>): Promise<Capability> {
  try {
    await sockets.requireHost()
    return works('The host-network helper answers. Workspaces can reach what the host itself can reach.')
  } catch (error) {
    return fails(messageOf(error))
  }
}

const messageOf = (error: unknown): string => (error instanceof AppError ? error.message : String(error))

/** `connected`, or the error code. */
function connectOnce(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    socket.setTimeout(CONNECT_TIMEOUT_MS)
    const end = (word: string): void => {
      socket.destroy()
      resolve(word)
    }
    socket.on('connect', () => end('connected'))
    socket.on('timeout', () => end('ETIMEDOUT'))
    socket.on('error', (error: NodeJS.ErrnoException) => end(error.code ?? 'unknown'))
  })
}
