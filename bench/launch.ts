/** How each contender is started. The subject is the constant `castellan`; everything else is a peer. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Connection, methodBody, request } from './client.ts'
import { type HttpTarget, openHttpConnection } from './http-connection.ts'
import { openStdioConnection } from './stdio-connection.ts'

export type Launch = Readonly<{
  name: string
  command: string
  args: readonly string[]
  environment?: Record<string, string>
}>
/** A server that can be measured over stdio and, where it has an HTTP transport, over HTTP; `dataDirectory` is its own. */
export type Contender = Readonly<{
  stdio(dataDirectory: string): Launch
  http?(dataDirectory: string, port: number): Launch
}>

const root = join(import.meta.dirname, '..')
const peer = (name: string, file: string, ...args: string[]): Launch => ({
  name,
  command: process.execPath,
  args: [join(import.meta.dirname, 'peers', file), ...args],
})

export const castellanCommand = join(root, 'bin', 'castellan')
export const castellan: Contender = {
  stdio: (directory) => ({
    name: 'castellan',
    command: castellanCommand,
    args: ['mcp', '--tools', 'full', '--data-dir', directory],
  }),
  http: (directory, port) => ({
    name: 'castellan',
    command: castellanCommand,
    args: ['serve', '--port', String(port), '--data-dir', directory],
  }),
}
export const standIn: Contender = {
  stdio: (directory) => peer('colibri stand-in', 'colibri-stdio.ts', join(directory, 'colibri.db')),
}
export const bareSdk: Contender = { stdio: () => peer('bare SDK 1.32', 'bare-sdk-stdio.ts') }
export const rawEcho: Contender = { stdio: () => peer('raw echo', 'echo-stdio.ts') }
export const bareRelay = (port: number): Launch => peer('a bare relay', 'bare-relay.ts', String(port))
export const rawHttp = (port: number): Launch => peer('raw node:http', 'raw-http.ts', String(port))

const children = new Set<ChildProcess>()
export const endChildren = (): void => {
  for (const child of children) child.kill('SIGKILL')
}

/** The bench's own configuration must not leak into the servers, so that every run measures the defaults. */
const environmentFor = (launch: Launch): NodeJS.ProcessEnv => {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('CASTELLAN_'))
  return { ...Object.fromEntries(inherited), ...launch.environment }
}

export const start = (launch: Launch): ChildProcess => {
  const child = spawn(launch.command, launch.args, { env: environmentFor(launch), stdio: ['pipe', 'pipe', 'pipe'] })
  children.add(child)
  child.on('error', () => children.delete(child))
  child.on('close', () => children.delete(child))
  return child
}

export const legacyRevision = '2025-11-25'
export const initializeParams = {
  protocolVersion: legacyRevision,
  capabilities: {},
  clientInfo: { name: 'castellan-bench', version: '1' },
}

export const initialize = async (connection: Connection): Promise<Connection> => {
  await request(connection, 'initialize', initializeParams)
  connection.notify(methodBody('notifications/initialized', {}))
  return connection
}

export const openStdio = (launch: Launch): Promise<Connection> => initialize(openStdioConnection(start(launch)))

export const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('connect', () => resolve(true))
    socket.on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })

export type HttpServerProcess = Readonly<{
  pid: number
  open(headers?: Readonly<Record<string, string>>): Connection
  openLegacy(): Promise<Connection>
  stop(): Promise<void>
}>

/** One call of a tool of ours by REST, to set something up. */
export async function postTool(port: number, tool: string, args: object): Promise<Record<string, unknown>> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/tools/${tool}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  const answer = (await response.json()) as Record<string, unknown>
  if (!response.ok) throw new Error(`${tool}: ${JSON.stringify(answer)}`)
  return answer
}

/** Starts an HTTP server and waits until its port accepts. */
export const startHttp = async (launch: Launch, port: number, path: string): Promise<HttpServerProcess> => {
  const child = start(launch)
  let lastWords = ''
  child.stdout?.resume()
  child.stderr?.on('data', (chunk: Buffer) => {
    lastWords = (lastWords + chunk.toString('utf8')).slice(-1000)
  })
  const deadline = performance.now() + 20_000
  while (!(await accepts(port))) {
    const ended = child.exitCode !== null || child.signalCode !== null || child.pid === undefined
    if (ended || performance.now() > deadline) throw new Error(`${launch.name} does not listen: ${lastWords.trim()}`)
    await pause(20)
  }
  const common = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
  const target: HttpTarget = { port, path, headers: common, pid: child.pid ?? -1 }
  const open = (headers: Readonly<Record<string, string>> = {}): Connection =>
    openHttpConnection({ ...target, headers: { ...common, ...headers } })
  return {
    pid: target.pid,
    open,
    openLegacy: () => initialize(open({ 'MCP-Protocol-Version': legacyRevision })),
    async stop() {
      const closed = once(child, 'close')
      child.kill('SIGTERM')
      const impatience = setTimeout(() => child.kill('SIGKILL'), 5_000)
      await closed
      clearTimeout(impatience)
    },
  }
}
