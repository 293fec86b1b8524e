import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpTransport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as Transport1 } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endSupervisor } from '../support/end-supervisor.ts'
import { type ModernUpstream, NOTE, startModernUpstream } from '../support/modern-upstream.ts'
import { type RealServer, startRealServer } from '../support/real-server.ts'

/** What servers behind a gateway ask of the clients in front of it: real clients, the real program, real servers of both eras. */
type Row = Record<string, unknown>
type Asked = string[]
const packages = resolve('node_modules')
const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }
const clients = ['sdk 1.32', 'legacy', 'auto'] as const

let dataDir = ''
let server: RealServer
let upstream: ModernUpstream
let owner: Client
let path = ''

async function ask<T = Row>(name: string, args: Row): Promise<T> {
  const answer = await owner.callTool({ name, arguments: args })
  if (answer.isError) throw new Error(`${name}: ${JSON.stringify(answer.content)}`)
  return answer.structuredContent as T
}

async function add(name: string, config: Row): Promise<void> {
  const { id } = await ask<{ id: string }>('create_mcp_server', { name, scope: 'org', ...config })
  const deployed = await ask<{ status: string }>('deploy_mcp_server', { catalogId: id, scope: 'org' })
  if (deployed.status !== 'success') throw new Error(JSON.stringify(deployed))
}

/** What a client answers: in its own name, so that it shows who was asked. */
const answersOf = (who: string, asked: Asked) => ({
  elicit: async ({ params }: { params: Row }) => {
    asked.push(String(params['message']))
    const content = { name: who, colour: 'Red', color: 'Red' }
    return { action: 'accept' as const, content }
  },
  sample: async ({ params }: { params: Row }) => {
    asked.push(String(params['systemPrompt']).split('\n')[0]!)
    const content = { type: 'text' as const, text: `thought of ${who}` }
    return { role: 'assistant' as const, model: 'm', content }
  },
  roots: async () => {
    asked.push('roots')
    return { roots: [{ uri: `file:///home/${who}`, name: who }] }
  },
})

type AskedClient = Readonly<{
  asked: Asked
  /** The resources of which it was told that they changed, and what servers logged. */
  updated: string[]
  logged: string[]
  watch(uri: string): Promise<void>
  hearLogs(): Promise<void>
  callTool(name: string, args?: Row): Promise<string>
  close(): Promise<void>
}>

const textOf = (answer: unknown): string =>
  (answer as { content: { text?: string }[] }).content.map(({ text }) => text ?? '').join('\n')

async function connect(kind: (typeof clients)[number], who: string): Promise<AskedClient> {
  const asked: Asked = []
  const updated: string[] = []
  const logged: string[] = []
  const { elicit, sample, roots } = answersOf(who, asked)
  const url = new URL(path, server.url)
  if (kind === 'sdk 1.32') {
    const client = new Client1({ name: who, version: '1' }, { capabilities })
    client.setRequestHandler(ElicitRequestSchema, elicit as never)
    client.setRequestHandler(CreateMessageRequestSchema, sample)
    client.setRequestHandler(ListRootsRequestSchema, roots)
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void updated.push(params.uri))
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logged.push(params.level))
    await client.connect(new HttpTransport1(url) as Transport1)
    return {
      asked,
      updated,
      logged,
      watch: async (uri) => void (await client.subscribeResource({ uri })),
      hearLogs: async () => void (await client.setLoggingLevel('debug')),
      callTool: async (name, args = {}) => textOf(await client.callTool({ name, arguments: args })),
      close: () => client.close(),
    }
  }
  const client = new Client({ name: who, version: '1' }, { capabilities, versionNegotiation: { mode: kind } })
  client.setRequestHandler('elicitation/create', elicit as never)
  client.setRequestHandler('sampling/createMessage', sample)
  client.setRequestHandler('roots/list', roots)
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri))
  client.setNotificationHandler('notifications/message', ({ params }) => void logged.push(params.level))
  await client.connect(new StreamableHTTPClientTransport(url))
  return {
    asked,
    updated,
    logged,
    async watch(uri) {
      if (kind === 'legacy') await client.subscribeResource({ uri })
      else
        expect((await client.listen({ resourceSubscriptions: [uri] })).honoredFilter).toEqual({
          resourceSubscriptions: [uri],
        })
    },
    hearLogs: async () => void (await client.setLoggingLevel('debug')),
    callTool: async (name, args = {}) => textOf(await client.callTool({ name, arguments: args })),
    close: () => client.close(),
  }
}

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-questions-'))
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    `workspaces: { mounts: [{ path: ${packages}, mode: ro }], store_gb: 2 }\nweb: { allow_private_addresses: ["127.0.0.1"] }\n`,
  )
  upstream = await startModernUpstream()
  server = await startRealServer({ dataDir, args: ['--tools', 'full'] })
  owner = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await owner.connect(new StreamableHTTPClientTransport(new URL('/mcp?tools=full', server.url)))
  await add('modern', { serverUrl: upstream.url })
  const entry = `${packages}/@modelcontextprotocol/server-everything/dist/index.js`
  const mounts = [{ host_path: packages, path: packages }]
  await add('everything', { command: 'node', arguments: [entry, 'stdio'], mounts })
  const gateway = await ask<{ id: string; path: string }>('create_mcp_gateway', { name: 'Asking' })
  path = gateway.path
  const assignments = ['modern__*', 'everything__*'].map((toolId) => ({
    mcpGatewayId: gateway.id,
    toolId,
    resolveAtCallTime: true,
  }))
  const { failed } = await ask<{ failed: Row[] }>('bulk_assign_tools_to_mcp_gateways', { assignments })
  if (failed.length > 0) throw new Error(JSON.stringify(failed))
})
afterAll(async () => {
  await owner.close()
  await server.stop()
  await endSupervisor(dataDir)
  await upstream[Symbol.asyncDispose]()
  rmSync(dataDir, { recursive: true, force: true })
})

describe.each(clients)('a client (%s)', (kind) => {
  it('is asked by servers of both eras, each what its own call asks', async () => {
    const names = ['ada', 'bob']
    const both = await Promise.all(names.map((who) => connect(kind, who)))
    await Promise.all(
      both.map(async (client, index) => {
        const who = names[index]!
        expect(await client.callTool('everything__trigger-elicitation-request')).toContain(`Name: ${who}`)
        expect(await client.callTool('everything__trigger-sampling-request', { prompt: 'x' })).toContain(
          `thought of ${who}`,
        )
        expect(await client.callTool('everything__get-roots-list')).toContain(`file:///home/${who}`)
        expect(await client.callTool('modern__greet')).toBe(`${who} likes Red`)
        expect(await client.callTool('modern__think')).toContain(`thought of ${who}`)
        const { asked } = client
        const elicited = ['Who are you?', 'Which colour?'].map((text) => `The MCP server modern asks:\n${text}`)
        expect(asked).toEqual(expect.arrayContaining([...elicited, 'roots']))
        expect(asked.some((text) => text.startsWith('The MCP server everything asks:\n'))).toBe(true)
        for (const name of ['modern', 'everything'])
          expect(asked).toContain(`This request comes from the MCP server ${name}.`)
      }),
    )
    await Promise.all(both.map((client) => client.close()))
    // The server of the newer revision is told what this client can do, though all share a connection to it.
    expect(upstream.declared.at(-1)).toMatchObject({ elicitation: {}, sampling: {} })
  })

  it('is told of the resources to which it subscribed, and of no others', async () => {
    const [ada, bob] = [await connect(kind, 'ada'), await connect(kind, 'bob')]
    await ada.watch(NOTE)
    await expect
      .poll(() => {
        upstream.update(NOTE)
        return ada.updated
      })
      .toContain(NOTE)
    const uri = 'demo://resource/static/document/architecture.md'
    await ada.watch(uri)
    if (kind !== 'auto') {
      await ada.callTool('everything__toggle-subscriber-updates')
      await expect.poll(() => ada.updated).toContain(uri)
    }
    expect(bob.updated).toEqual([])
    await Promise.all([ada.close(), bob.close()])
  })
})

it('a client of a session hears what servers log for it', async () => {
  const client = await connect('sdk 1.32', 'ada')
  await client.hearLogs()
  await client.callTool('everything__toggle-simulated-logging')
  await expect.poll(() => client.logged.length).toBeGreaterThan(0)
  await client.close()
})

it('a client that declares nothing is asked nothing', async () => {
  const before = upstream.declared.length
  const client = new Client({ name: 'mute', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await client.connect(new StreamableHTTPClientTransport(new URL(path, server.url)))
  const refused = await client.callTool({ name: 'modern__greet', arguments: {} })
  expect(refused.isError).toBe(true)
  expect(upstream.declared.slice(before)).toEqual([{ extensions: { 'io.modelcontextprotocol/tasks': {} } }])
  const echo = await client.callTool({ name: 'everything__echo', arguments: { message: 'hi' } })
  expect(textOf(echo)).toBe('Echo: hi')
  await client.close()
})
