import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type App, buildApp } from '../../src/app/build-app.ts'
import { loadConfig } from '../../src/app/config.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { createHttpDoor, type HttpDoor, type HttpDoorDeps } from '../../src/http/create-http-door.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { createMcpDoor } from '../../src/mcp/create-mcp-door.ts'
import { exposureOfUrl } from '../../src/mcp/exposure.ts'
import type { ToolHost } from '../../src/tools/runtime/tool-host.ts'

/** The real core on a temporary data directory, with the real MCP door; doors around it are made as a test needs them. */
export type HttpDoorApp = Readonly<{
  app: App
  /** A door around the app; what a test overrides, it overrides here. */
  door(overrides?: Partial<HttpDoorDeps>): HttpDoor
  /** A door that listens on a free loopback port, closed with the app. */
  serve(overrides?: Partial<HttpDoorDeps>): Promise<ServedDoor>
  /** The secret of a new API key. */
  createKey(input: Readonly<{ name: string; role?: string; scopes?: readonly string[] }>): Promise<string>
  close(): Promise<void>
}>

export type ServedDoor = Readonly<{ door: HttpDoor; url: string; port: number }>

export const VERSION = '1.2.3'

export async function openHttpDoorApp(flags: Readonly<Record<string, string>> = {}): Promise<HttpDoorApp> {
  const directory = await mkdtemp(join(tmpdir(), 'castellan-http-'))
  const { config } = await loadConfig({
    env: {},
    flags: { data_dir: directory, ...flags },
    workingDirectory: directory,
  })
  const shared = { version: VERSION, clock: systemClock, random: systemRandom, logger: silentLogger }
  const app = buildApp({ ...shared, config, ownerPid: () => process.pid })
  await app.ready
  const doors: HttpDoor[] = []

  function door(overrides: Partial<HttpDoorDeps> = {}): HttpDoor {
    const host: ToolHost = overrides.host ?? app.host
    const made = createHttpDoor({
      ...shared,
      mcp: createMcpDoor({ ...shared, host, presence: app.presence }),
      host,
      catalog: app.catalog,
      identity: async () => (await app.ready).identity,
      seal: async () => (await app.ready).seal,
      runs: async () => (await app.ready).runs,
      health: async () => (await app.ready).health(),
      exposureOfUrl,
      exposureDefault: 'default',
      allowedHosts: [],
      allowedOrigins: [],
      requireKeys: false,
      bodyBytesMax: 100_000,
      ...overrides,
    })
    doors.push(made)
    return made
  }

  return {
    app,
    door,
    async serve(overrides) {
      const made = door(overrides)
      const { url, port } = await made.listen({ host: '127.0.0.1', port: 0 })
      return { door: made, url, port }
    },
    async createKey(input) {
      const caller = { principal: localOwner, door: 'cli' as const, exposure: 'full' as const, safeNames: false }
      const answer = await app.host.call(caller, 'api_key_create', { role: 'member', tier: 'user', ...input })
      if (answer.isError) throw new Error(answer.json)
      return (JSON.parse(answer.json) as { secret: string }).secret
    },
    async close() {
      await Promise.all(doors.map((made) => made.close(0)))
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

export async function send(at: ServedDoor, path: string, init: RequestInit = {}): Promise<Reply> {
  const response = await fetch(at.url + path, init)
  const text = await response.text()
  const isJson = response.headers.get('content-type') === 'application/json' && text !== ''
  return { status: response.status, headers: response.headers, text, body: (isJson ? JSON.parse(text) : {}) as Body }
}

export const post = (at: ServedDoor, tool: string, args: unknown, headers: Record<string, string> = {}) =>
  send(at, `/v1/tools/${tool}`, { method: 'POST', headers: { ...jsonType, ...headers }, body: JSON.stringify(args) })

/** fetch sets Host itself; a raw request says what it likes. */
export async function sendRaw(at: ServedDoor, lines: readonly string[]): Promise<{ status: number; text: string }> {
  const text = await rawExchange(at.port, `${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`)
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text }
}
