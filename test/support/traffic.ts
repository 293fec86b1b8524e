import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import type { TestApp } from './app.ts'
import { sh } from './workspaces.ts'

/** What the workloads of tests run: programs that every host image has. */

/** Answers each line of each connection with its name before. Prints `up` when it listens. */
const echoServer = (port: number, name: string): string =>
  `exec perl -MIO::Socket::INET -e '$SIG{CHLD} = "IGNORE"; $| = 1;
  $server = IO::Socket::INET->new(LocalPort => ${port}, Listen => 9, ReuseAddr => 1) or die $!; print "up\\n";
  while ($client = $server->accept) { unless (fork) { while (<$client>) { print $client "${name}:$_" } exit } }'`

/** Starts a server as a background job, and waits until it listens. */
export async function serveIn(app: TestApp, workspace_id: string, port: number, name: string): Promise<void> {
  const job = (args: object) => app.ask('exec_background', { workspace_id, ...args })
  const { job_id } = await job({ action: 'start', command: echoServer(port, name) })
  for (;;) {
    const { stdout, running, stderr } = await job({ action: 'poll', job_id })
    if (stdout === 'up\n') return
    if (running !== true) throw new Error(`the server did not start: ${String(stderr)}`)
  }
}

/** A line to a peer and the line that comes back, or `refused`; nobody waits longer than a few seconds. */
export async function talk(
  app: TestApp,
  workspace_id: string,
  address: string,
  port: number,
  caller?: ToolCaller,
): Promise<string> {
  const command = `timeout 10 bash -c 'exec 3<>/dev/tcp/${address}/${port} && echo hello >&3 && read -r line <&3 && echo "$line"'`
  const { exit_code, stdout } = await sh(app, workspace_id, command, {}, caller)
  if (exit_code === 124) return 'no answer'
  return exit_code === 0 ? stdout.trimEnd() : 'refused'
}

/** Keeps talking on one connection until it breaks, and then prints `cut`. */
export const talkOn = (address: string, port: number): string =>
  `exec bash -c 'exec 3<>/dev/tcp/${address}/${port}
  while echo hello >&3 && read -r -t 10 line <&3; do echo "$line"; sleep 0.05; done; echo cut'`

/** The same from the machine itself. */
export function talkFromHost(port: number, address = '127.0.0.1'): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port })
    socket.setTimeout(10_000, () => socket.destroy())
    socket.on('connect', () => socket.write('hello\n'))
    socket.once('data', (data) => {
      resolve(String(data).trimEnd())
      socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve('refused'))
  })
}

export type EchoHost = Readonly<{ port: number; close(): Promise<void> }>

/** A process on the machine, on all its addresses, that answers each line with `host:` before it. */
export async function openEchoHost(): Promise<EchoHost> {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('data', (data) => socket.write(`host:${String(data)}`))
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
  return {
    port: (server.address() as { port: number }).port,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Kills slirp4netns, which is in the supervisor's pid namespace, as the kernel does when memory is short. */
export function killUplink({ dataDir }: TestApp): void {
  const supervisor = readFileSync(join(dataDir, 'workspaces/supervisor.pid'), 'utf8').trim()
  const isUplink = (pid: string): boolean => {
    try {
      const isInside = readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync(`/proc/${supervisor}/ns/pid`)
      return isInside && readFileSync(`/proc/${pid}/comm`, 'utf8') === 'slirp4netns\n'
    } catch {
      return false
    }
  }
  const found = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isUplink(name))
  if (found.length === 0) throw new Error('slirp4netns does not run')
  for (const pid of found) process.kill(Number(pid), 'SIGKILL')
}
