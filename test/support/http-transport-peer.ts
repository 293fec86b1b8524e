import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type App, buildApp } from '../../src/app/build-app.ts'
import { loadConfig } from '../../src/app/config.ts'
import { localOwner } from '../../src/contract/principal.ts'
import {
  createHttpTransport,
  type HttpTransport,
  type HttpTransportDeps,
} from '../../src/http/create-http-transport.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { createMcpTransport } from '../../src/mcp/create-mcp-transport.ts'
import { exposureOfUrl } from '../../src/mcp/exposure.ts'
import { createInFlightCalls } from '../../src/tools/runtime/in-flight-calls.ts'
import type { ToolHost } from '../../src/tools/runtime/tool-host.ts'

/** The real core on a temporary data directory, with the real MCP transport; transports around it are made as a test needs them. */
export type HttpTransportApp = Readonly<{
  app: App
  /** A transport around the app; what a test overrides, it overrides here. */
  transport(overrides?: Partial<HttpTransportDeps>): HttpTransport
  /** A transport that listens on a free loopback port, closed with the app. */
  serve(overrides?: Partial<HttpTransportDeps>): Promise<ServedTransport>
  /** The secret of a new API key. */
  createKey(input: Readonly<{ name: string; role?: string; scopes?: readonly string[] }>): Promise<string>
  close(): Promise<void>
}>

export type ServedTransport = Readonly<{ transport: HttpTransport; url: string; port: number }>

const VERSION = '1.2.3'

export async function openHttpTransportApp(flags: Readonly<Record<string, string>> = {}): Promise<HttpTransportApp> {
  const directory = await mkdtemp(join(tmpdir(), 'castellan-http-'))
  const { config } = await loadConfig({
    env: {},
    flags: { data_dir: directory, ...flags },
    workingDirectory: directory,
  })
  const shared = { version: VERSION, clock: systemClock, random: systemRandom, logger: silentLogger }
  const app = buildApp({ ...shared, config, ownerPid: () => process.pid })
  await app.ready
  const transports: HttpTransport[] = []

  function transport(overrides: Partial<HttpTransportDeps> = {}): HttpTransport {
    const host: ToolHost = overrides.host ?? app.host
    const inFlight = createInFlightCalls(app.presence)
    const made = createHttpTransport({
      ...shared,
      mcp: createMcpTransport({ ...shared, host, presence: app.presence, inFlight }),
      host,
      inFlight,
      catalog: app.catalog,
      identity: async () => (await app.ready).identity,
      seal: async () => (await app.ready).seal,
      runs: async () => (await app.ready).runs,
      secretLinks: async () => (await app.ready).secretLinks,
      authorizations: async () => (await app.ready).authorizations,
      gateways: async () => (await app.ready).gateways,
      people: async () => (await app.ready).people,
      health: async () => (await app.ready).health(),
      exposureOfUrl,
      exposureDefault: 'default',
      allowedHosts: [],
      allowedOrigins: [],
      trustedProxies: [],
      requireKeys: false,
      bodyBytesMax: 100_000,
      ...overrides,
    })
    transports.push(made)
    return made
  }

  return {
    app,
    transport,
    async serve(overrides) {
      const made = transport(overrides)
      const { url, port } = await made.listen({ host: '127.0.0.1', port: 0 })
      return { transport: made, url, port }
    },
    async createKey(input) {
      const caller = { principal: localOwner, transport: 'cli' as const, exposure: 'full' as const, safeNames: false }
      const answer = await app.host.call(caller, 'api_key_create', { role: 'member', tier: 'user', ...input })
      if (answer.isError) throw new Error(answer.json)
      return (JSON.parse(answer.json) as { secret: string }).secret
    },
    async close() {
      await Promise.all(transports.map((made) => made.close(0)))
      await app.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Sends bytes as they are, and answers with everything that came back until the server closed or `enough` was there. */
export function rawExchange(port: number, bytes: string, enough = /$^/): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      text += chunk
      if (enough.test(text)) socket.destroy()
    })
    socket.once('close', () => resolve(text))
    socket.once('error', reject)
  })
}

export const jsonType = { 'content-type': 'application/json' }
export const mcpHeaders = { ...jsonType, accept: 'application/json, text/event-stream' }
export const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

type Body = { error?: { code: string; message: string; details: Record<string, unknown> } } & Record<string, unknown>
export type Reply = Readonly<{ status: number; headers: Headers; text: string; body: Body }>

export async function send(at: ServedTransport, path: string, init: RequestInit = {}): Promise<Reply> {
  const response = await fetch(at.url + path, init)
  const text = await response.text()
  const isJson = response.headers.get('content-type') === 'application/json' && text !== ''
  return { status: response.status, headers: response.headers, text, body: (isJson ? JSON.parse(text) : {}) as Body }
}

export const post = (at: ServedTransport, tool: string, args: unknown, headers: Record<string, string> = {}) =>
  send(at, `/v1/tools/${tool}`, { method: 'POST', headers: { ...jsonType, ...headers }, body: JSON.stringify(args) })

/** fetch sets Host itself; a raw request says what it likes. */
export async function sendRaw(
  at: ServedTransport,
  lines: readonly string[],
): Promise<{ status: number; text: string }> {
  const text = await rawExchange(at.port, `${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`)
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text }
}
