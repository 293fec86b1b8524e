import { Client as Client2, StreamableHTTPClientTransport as HttpTransport2 } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpTransport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as Transport1 } from '@modelcontextprotocol/sdk/shared/transport.js'
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LOCAL_TENANT, tenantId } from '../../src/contract/principal.ts'
import type { UpstreamTool } from '../../src/contract/upstream-tools.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import {
  bearer,
  type HttpTransportApp,
  openHttpTransportApp,
  type ServedTransport,
} from '../support/http-transport-peer.ts'
import { startUpstreamServer, type UpstreamServer } from '../support/upstream-server.ts'
import { createTestUpstreams, idOf, servedBy, type TestUpstreams } from '../support/upstreams.ts'

/** The tools of another server through the whole program: found, listed, judged, called and recorded like ours. */
const other = tenantId('acme')
let app: TestApp
let server: UpstreamServer
let upstreams: TestUpstreams
let member: ToolCaller
let foreigner: ToolCaller
beforeAll(async () => {
  app = await openTestApp()
  server = await startUpstreamServer()
  upstreams = createTestUpstreams()
  app.app.views.connect(upstreams)
  member = { ...(await app.keyCaller({ role: 'member' })), exposure: 'full' }
  foreigner = { ...(await app.keyCaller({ role: 'admin', tenant: other })), exposure: 'full' }
  const isOwners = ({ kind }: ToolCaller['principal']) => kind === 'owner'
  await upstreams.add({ tenant: LOCAL_TENANT, name: 'weather', url: server.url })
  await upstreams.add({ tenant: LOCAL_TENANT, name: 'private', url: server.url, isVisible: isOwners })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstreams[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

const listed = async (caller: ToolCaller): Promise<string[]> =>
  (await app.app.host.list(caller)).map(({ name }) => name).filter((name) => name.includes('__'))

describe('a tool of an upstream server', () => {
  it('is listed for those who may see the server, in their tenant alone', async () => {
    expect(await listed(ownerCaller)).toEqual(expect.arrayContaining(['weather__forecast', 'private__forecast']))
    expect(await listed(member)).toContain('weather__forecast')
    expect((await listed(member)).filter((name) => name.startsWith('private__'))).toEqual([])
    expect(await listed(foreigner)).toEqual([])
    expect(await listed({ ...ownerCaller, exposure: 'default' })).toEqual([])
    expect(await listed({ ...ownerCaller, exposure: ['weather__radar'] })).toEqual(['weather__radar'])
    expect(await listed({ ...ownerCaller, exposure: ['weather__*'] })).not.toContain('private__forecast')
  })

  it('answers as its server does, with the access of the caller, and is in the log', async () => {
    const answer = await app.call('weather__forecast', { city: 'Rome' }, member)
    expect(answer).toMatchObject({ isError: false, output: { degrees: 21 } })
    expect(answer.content).toEqual([{ type: 'text', text: '21 degrees in Rome' }])
    expect(upstreams.targets.at(-1)).toMatchObject({ principal: member.principal, credential: { mode: 'dynamic' } })
    expect(await app.lastCall()).toMatchObject({ tool: 'weather__forecast', outcome: 'ok' })
    expect((await app.call('weather__broken', {}, member)).failure).toMatchObject({ code: 'ERR_TOOL_FAILED' })
    expect(await app.lastCall()).toMatchObject({ tool: 'weather__broken', outcome: 'failed', code: 'ERR_TOOL_FAILED' })
  })

  it('does not exist for others, not even as a suggestion', async () => {
    for (const [name, caller] of [
      ['private__forecast', member],
      ['weather__forecast', foreigner],
    ] as const) {
      const refusal = await app.refusal(name, { city: 'Rome' }, caller)
      expect(refusal.code).toBe('ERR_UNKNOWN_TOOL')
      expect(JSON.stringify(refusal.details)).not.toContain(name)
      const run = await app.refusal('run_tool', { tool_name: name, tool_args: { city: 'Rome' } }, caller)
      expect(run.code).toBe('ERR_UNKNOWN_TOOL')
    }
    expect((await app.refusal('weather__forcast', {}, member)).message).toContain("'weather__forecast'")
  })

  it('has its arguments checked before its server sees them', async () => {
    const seen = server.calls.length
    const refusal = await app.refusal('weather__forecast', { city: 'R' }, member)
    expect(refusal).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'city' } })
    expect(server.calls).toHaveLength(seen)
  })

  it('is found by search and run by run_tool, glued arguments and all', async () => {
    type Found = { tools: { toolName: string; source: string; server: string | null }[] }
    const query = { query: 'weather of a city' }
    const found = await app.ask<Found>('search_tools', query, member)
    expect(found.tools[0]).toMatchObject({ toolName: 'weather__forecast', source: 'mcp', server: 'weather' })
    expect(JSON.stringify(found)).not.toContain('private__')
    expect(JSON.stringify(await app.ask<Found>('search_tools', query, foreigner))).not.toContain('weather__')
    const run = await app.call('run_tool', { tool_name: 'Weather__Forecast', city: 'Oslo' }, member)
    expect(run.output).toEqual({ degrees: 21 })
    expect(await app.lastCall()).toMatchObject({ tool: 'weather__forecast', via: 'run_tool' })
  })

  it('is refused by a security context and in mode READONLY like ours', async () => {
    const context = { name: 'radar', description: '', capabilities: [{ toolPattern: 'weather__r*' }], denyList: [] }
    const only = (toolPattern: string) =>
      callerOf({ ...member.principal, securityContexts: [{ ...context, capabilities: [{ toolPattern }] }] })
    expect((await app.refusal('weather__forecast', { city: 'Rome' }, only('weather__radar'))).code).toBe(
      'ERR_POLICY_VIOLATION',
    )
    expect((await app.call('weather__forecast', { city: 'Rome' }, only('weather__*'))).isError).toBe(false)
    await using reading = await openTestApp({ config: { mode: 'READONLY' } })
    reading.app.views.connect(upstreams)
    expect((await reading.refusal('weather__forecast', { city: 'Rome' })).code).toBe('ERR_MODE_REFUSED')
  })

  it('is on disk before the answer, unless its server declares that it reads and it succeeded', async () => {
    const onDisk = ({ behindItsBack }: TestApp) =>
      Number(behindItsBack((db) => db.prepare('SELECT count(*) AS n FROM log_entries').get()!['n']))
    const written = async (at: TestApp, tool: string, args = {}): Promise<number> => {
      await at.log()
      const before = onDisk(at)
      await at.call(tool, args)
      return onDisk(at) - before
    }
    expect(await written(app, 'weather__forecast', { city: 'Rome' })).toBe(1)
    expect(await written(app, 'weather__radar')).toBe(0)
    expect(await app.lastCall()).toMatchObject({ tool: 'weather__radar', outcome: 'ok' })
    expect(await written(app, 'weather__broken')).toBe(1)
    for (const mode of ['batched_own', 'strict'] as const) {
      await using waiting = await openTestApp({ config: { 'audit.read_records': mode } })
      waiting.app.views.connect(upstreams)
      expect(await written(waiting, 'weather__radar')).toBe(1)
      expect(await written(waiting, 'server_ping')).toBe(mode === 'strict' ? 1 : 0)
    }
  })

  it('is on disk before the answer, whatever its server declares, if it makes a context untrusted', async () => {
    await using strange = await openTestApp({ config: { governance: 'restrictive' } })
    strange.app.views.connect(upstreams)
    const rows = () => strange.behindItsBack((db) => db.prepare('SELECT count(*) AS n FROM log_entries').get()!['n'])
    expect((await strange.call('weather__radar', {})).isError).toBe(false)
    expect(rows()).toBe(1)
  })

  it('is known to manifests of those who may see it', async () => {
    type Validated = { valid: boolean; errors: string[] | null }
    const manifest = (tool: string) =>
      ['apiVersion: 100monkeys.ai/v1', 'kind: Agent', 'metadata: {name: teller, version: 1.0.0}', 'spec:']
        .concat([
          '  runtime: {language: python, version: "3.11"}',
          '  task: {instruction: Tell.}',
          `  tools: [${tool}]`,
        ])
        .join('\n')
    const check = (tool: string, caller = ownerCaller) =>
      app.ask<Validated>('aegis.schema.validate', { kind: 'agent', manifest_yaml: manifest(tool) }, caller)
    expect(await check('weather__forecast')).toMatchObject({ errors: null, valid: true })
    expect(await check('weather__*')).toMatchObject({ valid: true })
    expect((await check('weather__nothing')).errors!.join()).toContain('weather__')
    expect(JSON.stringify(await app.ask('aegis.tools.list', { category: 'upstream' }))).toContain('weather__forecast')
  })
})

describe('very many tools', () => {
  const crowd = (server: string): UpstreamTool[] =>
    Array.from({ length: 1_200 }, (_, number) => ({
      id: idOf(server, `tool_${number}`),
      definition: '',
      tenant: LOCAL_TENANT,
      catalogId: server,
      serverName: server,
      name: `${server}__tool_${number}`,
      aliases: [],
      description: 'One of many.',
      inputSchema: { type: 'object' },
    }))

  it('are listed for those who may see them, and judged while others are served', async () => {
    await using many = await openTestApp()
    const lists = ['open', 'closed'].map((id) => ({ id, scope: 'org' as const, tools: crowd(id) }))
    many.app.views.connect({
      ...upstreams,
      list: async () => lists,
      visibleTo: async ({ kind }) => servedBy(kind === 'owner' ? ['open', 'closed'] : ['open']),
    })
    const guest = { ...(await many.keyCaller({ role: 'member' })), exposure: 'full' as const }
    const owner = { ...ownerCaller, exposure: 'full' as const }
    const upstreamNames = async (caller: ToolCaller) =>
      (await many.app.host.list(caller)).flatMap(({ name }) => (name.includes('__') ? name : []))
    let turns = 0
    const count = (): void => {
      turns++
      counting = setImmediate(count)
    }
    let counting = setImmediate(count)
    const [ofOwner, ofGuest] = await Promise.all([upstreamNames(owner), upstreamNames(guest)])
    clearImmediate(counting)
    expect(turns).toBeGreaterThan(1)
    const namesOf = (...servers: readonly string[]) => servers.flatMap(crowd).map(({ name }) => name)
    expect(ofOwner).toEqual(namesOf('open', 'closed').sort())
    expect(ofGuest).toEqual(namesOf('open').sort())
    expect(await many.app.host.list(owner)).toBe(await many.app.host.list(owner))
  })
})

describe('clients', () => {
  let http: HttpTransportApp
  let served: ServedTransport
  let key: string
  let foreign: string
  beforeAll(async () => {
    http = await openHttpTransportApp()
    served = await http.serve()
    http.app.views.connect(upstreams)
    key = await http.createKey({ name: 'key' })
    const createForeign = { name: 'foreign', role: 'member', tier: 'user', tenant: 'acme' }
    const created = await http.app.host.call(ownerCaller, 'api_key_create', createForeign)
    foreign = (JSON.parse(created.json) as { secret: string }).secret
  })
  afterAll(() => http.close())

  const identity = { name: 'upstream-test', version: '1.0.0' }
  const at = (exposure: string) => new URL(`${served.url}/mcp?tools=${exposure}`)
  const options = (secret: string) => ({ requestInit: { headers: bearer(secret) } })

  it('of every revision get progress, cancel, and see blocks and _meta', async () => {
    const first = new Client1(identity)
    await first.connect(new HttpTransport1(at('full'), options(key)) as Transport1)
    const modern = new Client2(identity, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    await modern.connect(new HttpTransport2(at('full'), options(key)))
    for (const client of [first, modern]) {
      const radar = await client.callTool({ name: 'weather__radar', arguments: {} })
      expect(radar.content).toMatchObject([{ text: 'rain' }, { type: 'image' }])
      expect(radar['_meta']).toMatchObject({ 'example.org/source': 'radar' })
      const cancelled = server.calls.filter(({ name }) => name === 'slow cancelled').length
      const stop = new AbortController()
      const onprogress = () => stop.abort()
      const call = { name: 'weather__slow', arguments: {} }
      const calling =
        client instanceof Client1
          ? client.callTool(call, undefined, { signal: stop.signal, onprogress })
          : client.callTool(call, { signal: stop.signal, onprogress })
      await expect(calling).rejects.toThrow()
      await expect
        .poll(() => server.calls.filter(({ name }) => name === 'slow cancelled').length)
        .toBeGreaterThan(cancelled)
    }
    await first.close()
    await modern.close()
  })

  it('are told when what they see changes, and only then', async () => {
    const heard: string[] = []
    const connected: { close(): Promise<void> }[] = []
    async function legacy(label: string, exposure: string, secret: string) {
      const client = new Client1(identity)
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => void heard.push(label))
      await client.connect(new HttpTransport1(at(exposure), options(secret)) as Transport1)
      await client.listTools()
      connected.push(client)
    }
    async function modern(label: string, exposure: string, secret: string) {
      const client = new Client2(identity, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
      client.setNotificationHandler('notifications/tools/list_changed', () => void heard.push(label))
      await client.connect(new HttpTransport2(at(exposure), options(secret)))
      await client.listTools()
      await client.listen({ toolsListChanged: true })
      connected.push(client)
    }
    await legacy('legacy', 'full', key)
    await legacy('legacy default', 'default', key)
    await legacy('legacy foreign', 'full', foreign)
    await modern('modern', 'full', key)
    await modern('modern default', 'default', key)
    await modern('modern foreign', 'full', foreign)
    upstreams.refresh(LOCAL_TENANT)
    server.add('tides')
    upstreams.refresh(LOCAL_TENANT)
    await expect.poll(() => [...new Set(heard)].sort()).toEqual(['legacy', 'modern'])
    await upstreams.add({ tenant: other, name: 'tide', url: server.url })
    await expect
      .poll(() => [...new Set(heard)].sort())
      .toEqual(['legacy', 'legacy foreign', 'modern', 'modern foreign'])
    await Promise.all(connected.map((client) => client.close()))
  })
})
