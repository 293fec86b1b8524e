import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import type { NetworkSpec } from '../../src/domains/workspaces/backend.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { createHostNames } from '../../src/supervisor/network/host-names.ts'
import { createNetworkHub, type HubWorkspace } from '../../src/supervisor/network/network-hub.ts'
import { startSockets } from '../../src/supervisor/network/sockets.ts'
import { runCommand } from '../../src/supervisor/run-command.ts'
import { SYSTEM_PATH } from '../../src/supervisor/user-namespace.ts'
import { answerLines } from './line-requests.ts'
import type { HubBounds } from './network-bench.ts'

/** Other test files have hubs at the same time, and all look for ports on this machine. */
const firstPort = 21_000 + (process.pid % 100) * 100
const ownPorts = { first: firstPort, last: firstPort + 99 }

/** A hub in namespaces of its own, as the supervisor has it, without the supervisor. */
const directory = process.argv[2]!
const bounds = JSON.parse(process.argv[3]!) as HubBounds
const sockets = startSockets({ ...bounds, hostNetworkPath: join(directory, 'host.sock'), logger: silentLogger })
const names = createHostNames({ hostNetworkPath: join(directory, 'host.sock'), random: systemRandom })
const hub = createNetworkHub({
  ...bounds,
  run: runCommand,
  logger: silentLogger,
  sockets,
  searchPath: bounds.searchPath ?? SYSTEM_PATH,
  socketDirectory: directory,
  logDirectory: directory,
})

answerLines({
  open: () => hub.open(),
  attach: (workspace: HubWorkspace, spec: NetworkSpec) => hub.attach(workspace, spec),
  update: (id: string, spec: NetworkSpec) => hub.update(id, spec),
  detach: (id: string) => hub.detach(id),
  setHostNetwork: (hostNetwork: Parameters<typeof hub.setHostNetwork>[0]) => hub.setHostNetwork(hostNetwork),
  reserveHostPort: (wanted: number | null) => hub.reserveHostPort(wanted ?? undefined, ownPorts),
  waitForUplink: (timeoutMs: number) => hub.waitForUplink(timeoutMs),
  probe: () => hub.probe(),
  requireHost: () => sockets.requireHost(),
  resolve: (host: string, server: string | null) => names(host, server ?? undefined),
  /** What the host-network helper connects to, and what is said there. */
  dialFromHost: async (address: string, port: number) => {
    const socket = await sockets.connectFromHost(address, port)
    if (socket === undefined) return null
    socket.write('hello')
    const [data] = await once(socket, 'data')
    socket.destroy()
    return String(data)
  },
  listen: (host: string, port: number) =>
    new Promise((resolve) => {
      const server = createServer((socket) => {
        socket.on('data', (data) => socket.write(`hub:${String(data)}`))
        socket.on('error', () => {})
      })
      server.listen(port, host, () => resolve(null))
    }),
  dial: (host: string, port: number) =>
    new Promise((resolve) => {
      const socket = connect({ host, port })
      socket.on('connect', () => resolve('connected'))
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
    }),
  write: (path: string, text: string) => writeFileSync(path, text),
  run: (program: string, args: string[]) => execFileSync(program, args, { encoding: 'utf8', stdio: 'pipe' }),
})
