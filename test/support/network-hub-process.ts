import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { NetworkSpec } from '../../src/domains/workspaces/backend.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { createNetworkHub, type HubWorkspace } from '../../src/supervisor/network/network-hub.ts'
import { runCommand } from '../../src/supervisor/run-command.ts'
import { answerLines } from './line-requests.ts'

/** A hub in namespaces of its own, as the supervisor has it, without the supervisor. */
const directory = process.argv[2]!
const hub = createNetworkHub({
  run: runCommand,
  logger: silentLogger,
  socketDirectory: directory,
  logDirectory: directory,
})

answerLines({
  open: () => hub.open(),
  attach: (workspace: HubWorkspace, spec: NetworkSpec) => hub.attach(workspace, spec),
  update: (id: string, spec: NetworkSpec) => hub.update(id, spec),
  detach: (id: string) => hub.detach(id),
  setSurroundings: (around: Parameters<typeof hub.setSurroundings>[0]) => hub.setSurroundings(around),
  reserveHostPort: (wanted: number | null) => hub.reserveHostPort(wanted ?? undefined),
  waitForUplink: (timeoutMs: number) => hub.waitForUplink(timeoutMs),
  probe: () => hub.probe(),
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
