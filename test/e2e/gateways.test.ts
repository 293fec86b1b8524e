import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createMCPClient } from '@ai-sdk/mcp'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpTransport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as Transport1 } from '@modelcontextprotocol/sdk/shared/transport.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endSupervisor } from '../support/end-supervisor.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { castellanJson, postForm } from '../support/people.ts'
import { runNode } from '../support/run-node.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Real clients at the address of a gateway, the real program, and real MCP servers behind it. */
type Row = Record<string, unknown>
const packages = resolve('node_modules')
const inspector = 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js'
const npmServers = { everything: ['stdio'], filesystem: ['/tmp'], memory: [], 'sequential-thinking': [] } as const

let dataDir = ''
let server: ServerHere
let upstream: McpUpstream
let owner: Client
let toolIds: Record<string, string> = {}
const deployments: Record<string, string> = {}

const start = () => startServerHere({ dataDir, args: ['--tools', 'full'] })
const addressOf = (path: string): URL => new URL(path, server.url)

async function connect(
  path: string,
  { mode = 'auto', key }: Readonly<{ mode?: 'auto' | 'legacy'; key?: string }> = {},
): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  await client.connect(new StreamableHTTPClientTransport(addressOf(path), { requestInit: { headers } }))
  return client
}

async function ask<T = Row>(name: string, args: Row, client = owner): Promise<T> {
  const answer = await client.callTool({ name, arguments: args })
  if (answer.isError) throw new Error(`${name}: ${JSON.stringify(answer.content)}`)
  return answer.structuredContent as T
}

async function add(name: string, config: Row): Promise<void> {
  const { id } = await ask<{ id: string }>('create_mcp_server', { name, scope: 'org', ...config })
  const deployed = await ask<{ id: string; status: string }>('deploy_mcp_server', { catalogId: id, scope: 'org' })
  if (deployed.status !== 'success') throw new Error(JSON.stringify(deployed))
  deployments[name] = deployed.id
  const { tools } = await ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', { mcpServerId: id })
  for (const tool of tools) toolIds = { ...toolIds, [tool.name]: tool.id }
}

async function newGateway(args: Row, tools: readonly string[]): Promise<{ id: string; path: string }> {
  const gateway = await ask<{ id: string; path: string }>('create_mcp_gateway', args)
  const assignments = tools.map((name) => ({
    mcpGatewayId: gateway.id,
    toolId: toolIds[name] ?? name,
    ...(name.includes('__') && { mcpServerId: deployments[name.split('__')[0]!.replaceAll('_', '-')] }),
  }))
  const { failed } = await ask<{ failed: Row[] }>('bulk_assign_tools_to_mcp_gateways', { assignments })
  if (failed.length > 0) throw new Error(JSON.stringify(failed))
  return gateway
}

const namesOf = async (client: Pick<Client, 'listTools'>) =>
  (await client.listTools()).tools.map(({ name }) => name).sort()
const textOf = (answer: unknown): string => (answer as { content: { text: string }[] }).content[0]!.text

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-gateway-'))
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    `workspaces: { mounts: [{ path: ${packages}, mode: ro }], store_gb: 2 }\nweb: { allow_private_addresses: ["127.0.0.1"] }\n`,
  )
  upstream = await startMcpUpstream()
  server = await start()
  // Has a session, so what other clients of the owner read does not count for it.
  owner = await connect('/mcp?tools=full', { mode: 'legacy' })
  await add('up', { serverUrl: upstream.url })
  const mounts = [{ host_path: packages, path: packages }]
  for (const [name, args] of Object.entries(npmServers)) {
    const entry = `${packages}/@modelcontextprotocol/server-${name}/dist/index.js`
    await add(name, { command: 'node', arguments: [entry, ...args], mounts })
  }
})
afterAll(async () => {
  await owner.close()
  await server.stop()
  await endSupervisor(dataDir)
  await upstream[Symbol.asyncDispose]()
  rmSync(dataDir, { recursive: true, force: true })
})

describe('what servers behind a gateway offer beside tools', () => {
  it.each(['auto', 'legacy'] as const)('is listed, read and completed by a client (%s)', async (mode) => {
    const { id, path } = await newGateway({ name: `Content ${mode}` }, ['everything__echo', 'memory__read_graph'])
    const client = await connect(path, { mode })
    const { prompts } = await client.listPrompts()
    expect(prompts.map(({ name }) => name)).toContain('everything__simple-prompt')
    const prompt = await client.getPrompt({ name: 'everything__args-prompt', arguments: { city: 'Paris' } })
    expect(JSON.stringify(prompt.messages)).toContain('Paris')
    await expect(client.getPrompt({ name: 'everything__none' })).rejects.toThrow('no MCP server')
    const { resources } = await client.listResources()
    expect(resources.length).toBeGreaterThan(0)
    const { contents } = await client.readResource({ uri: resources[0]!.uri })
    expect(contents[0]!.uri).toBe(resources[0]!.uri)
    await expect(client.readResource({ uri: 'demo://nowhere/at/all' })).rejects.toThrow()
    expect((await client.listResourceTemplates()).resourceTemplates.length).toBeGreaterThan(0)
    const ref = { type: 'ref/prompt', name: 'everything__completable-prompt' } as const
    const { completion } = await client.complete({ ref, argument: { name: 'department', value: 'E' } })
    expect(completion.values).toContain('Engineering')
    // Progress and cancellation pass too.
    const long = { name: 'up__steps', arguments: {} }
    await ask('bulk_assign_tools_to_mcp_gateways', {
      assignments: ['up__steps', 'up__hang'].map((toolId) => ({ mcpGatewayId: id, toolId, resolveAtCallTime: true })),
    })
    const seen: number[] = []
    await client.callTool(long, { onprogress: ({ progress }) => seen.push(progress) })
    expect(seen).toEqual([1, 2])
    const abort = new AbortController()
    const hanging = client.callTool({ name: 'up__hang', arguments: {} }, { signal: abort.signal })
    await expect.poll(() => upstream.requests.at(-1)?.method).toBe('POST')
    abort.abort()
    await expect(hanging).rejects.toThrow()
    await client.close()
  })

  it('is told to be missing where a server cannot be asked', async () => {
    const { id } = await ask<{ id: string }>('create_mcp_server', {
      name: 'lone',
      serverUrl: upstream.url,
      scope: 'org',
    })
    await ask('deploy_mcp_server', { catalogId: id })
    const gateway = await newGateway({ name: 'Half' }, ['everything__echo'])
    const lone = { mcpGatewayId: gateway.id, toolId: 'lone__echo', resolveAtCallTime: true }
    await ask('bulk_assign_tools_to_mcp_gateways', { assignments: [lone] })
    const key = String((await castellanJson({ dataDir }, ['keys', 'create', 'eve', '--role', 'member']))['secret'])
    const client = await connect(gateway.path, { key })
    const listed = await client.listResources()
    expect(listed.resources.length).toBeGreaterThan(0)
    expect(listed._meta?.['castellan/unreachable']).toMatchObject([{ server: 'lone', code: 'ERR_CREDENTIAL_REQUIRED' }])
    await client.close()
  })
})

describe('the credentials of a call', () => {
  it('are those of the pinned deployment, or those of the caller, and never those of another user', async () => {
    const key = async (name: string) =>
      String((await castellanJson({ dataDir }, ['keys', 'create', name, '--role', 'editor']))['secret'])
    const keys = { cat: await key('cat'), dan: await key('dan') }
    const clients = { cat: await connect('/mcp', { key: keys.cat }), dan: await connect('/mcp', { key: keys.dan }) }
    const auth = [{ name: 'X-Token', label: 'Token', type: 'header', secret: true }]
    const item = { name: 'own', serverUrl: upstream.url, scope: 'org', requiresAuth: true, authFields: auth }
    const { id } = await ask<{ id: string }>('create_mcp_server', item)
    const deploy = (values: Row, client: Client) =>
      ask<{ id: string }>('deploy_mcp_server', { catalogId: id, values }, client)
    const ofCat = (await deploy({ 'X-Token': 'of-cat' }, clients.cat)).id
    type Listed = { tools: { id: string; name: string }[] }
    expect((await ask<Listed>('get_mcp_server_tools', { mcpServerId: id })).tools).toEqual([])
    const { tools } = await ask<Listed>('get_mcp_server_tools', { mcpServerId: id }, clients.cat)
    const toolId = tools.find(({ name }) => name === 'own__echo')!.id
    const { id: gateway, path } = await ask<{ id: string; path: string }>('create_mcp_gateway', { name: 'Credentials' })
    const assign = (more: Row) =>
      ask<Row>('bulk_assign_tools_to_mcp_gateways', { assignments: [{ mcpGatewayId: gateway, toolId, ...more }] })
    const echo = async (who: 'cat' | 'dan') => {
      const client = await connect(path, { key: keys[who] })
      const answer = await client.callTool({ name: 'own__echo', arguments: { text: who } })
      await client.close()
      return answer.isError === true ? textOf(answer) : upstream.requests.at(-1)!.headers['x-token']
    }
    await assign({ resolveAtCallTime: true })
    expect(await echo('cat')).toBe('of-cat')
    expect(await echo('dan')).toContain(`call deploy_mcp_server with {\\"catalogId\\":\\"${id}\\"}`)
    await deploy({ 'X-Token': 'of-dan' }, clients.dan)
    expect(await echo('dan')).toBe('of-dan')
    // What is pinned to the deployment of one person serves that person alone.
    await assign({ mcpServerId: ofCat })
    expect(await echo('cat')).toBe('of-cat')
    expect(await echo('dan')).toContain('does not exist or is not yours')
    const all = { catalogId: id, scope: 'org', values: { 'X-Token': 'of-all' } }
    await assign({ mcpServerId: (await ask<{ id: string }>('deploy_mcp_server', all))['id'] })
    expect([await echo('cat'), await echo('dan')]).toEqual(['of-all', 'of-all'])
    for (const client of Object.values(clients)) await client.close()
  })
})

describe('the address of a gateway', () => {
  const assigned = [
    'everything__echo',
    'filesystem__list_allowed_directories',
    'memory__read_graph',
    'sequential_thinking__sequentialthinking',
    'task_list',
  ]

  it('lists and calls what is assigned to it, and nothing else, for every kind of client', async () => {
    const { id, path } = await newGateway({ name: 'All of them' }, assigned)
    for (const mode of ['auto', 'legacy'] as const) {
      for (const address of [path, `/mcp/${id}`]) {
        const client = await connect(address, { mode })
        expect(await namesOf(client), `${mode} ${address}`).toEqual(assigned)
        const echo = await client.callTool({ name: 'everything__echo', arguments: { message: mode } })
        expect(textOf(echo)).toBe(`Echo: ${mode}`)
        const other = await client.callTool({ name: 'task_create', arguments: { title: 'x' } }).catch(String)
        expect(JSON.stringify(other)).toContain("There is no tool 'task_create'")
        expect(JSON.stringify(other)).not.toContain('up__')
        await client.close()
      }
    }
    const sdk1 = new Client1({ name: 'test', version: '1' })
    await sdk1.connect(new HttpTransport1(addressOf(path)) as Transport1)
    expect((await sdk1.listTools()).tools.map(({ name }) => name).sort()).toEqual(assigned)
    expect(textOf(await sdk1.callTool({ name: 'memory__read_graph', arguments: {} }))).toContain('entities')
    await sdk1.close()
    const ai = await createMCPClient({ transport: { type: 'http', url: addressOf(path).href } })
    expect(Object.keys(await ai.tools()).sort()).toEqual(assigned)
    await ai.close()
    const reader = await connect('/mcp?tools=full')
    expect(JSON.stringify(await ask('log_export', { limit: 1000 }, reader))).toContain(`\\"gateway\\":\\"${id}\\"`)
  })

  it.each(['legacy', 'modern'])('has schemas that the Inspector accepts (%s)', async (era) => {
    const { path } = await newGateway({ name: `Inspected ${era}` }, assigned)
    const args = [
      '--cli',
      addressOf(path).href,
      '--transport',
      'http',
      '--protocol-era',
      era,
      '--method',
      'tools/list',
      '--strict',
    ]
    // It may warn of what another server wrote into its schemas.
    const { code, stdout, stderr } = await runNode([inspector, ...args], 120_000)
    expect(code, stderr).toBe(0)
    const { tools } = JSON.parse(stdout) as { tools: { name: string }[] }
    expect(tools.map(({ name }) => name).sort()).toEqual(assigned)
  })

  it('gives out one-time links that work, though the page is not behind the gateway', async () => {
    const { path } = await newGateway({ name: 'Linking' }, ['secret_link_create'])
    const client = await connect(path)
    const { url } = await ask<{ url: string }>('secret_link_create', { purpose: 'Token' }, client)
    const entered = await postForm(addressOf(new URL(url).pathname), { value: 'token' })
    expect(entered.status, await entered.text()).toBe(200)
    await client.close()
  })

  it('is a protected resource of its own', async () => {
    const { path } = await newGateway({ name: 'Protected' }, ['task_list'])
    const metadata = await fetch(addressOf(`/.well-known/oauth-protected-resource${path}`))
    expect(await metadata.json()).toMatchObject({ resource: addressOf(path).href })
  })

  it('of an agent has the tools of its manifest and those that are assigned to it', async () => {
    const toolAssignments = [
      { toolId: 'task_list' },
      { toolId: toolIds['everything__echo'], mcpServerId: deployments['everything'] },
    ]
    const { id, slug } = await ask<{ id: string; slug: string }>('create_agent', { name: 'At work', toolAssignments })
    for (const address of [`/mcp/${slug}`, `/mcp/${id}`]) {
      const client = await connect(address)
      expect(await namesOf(client)).toEqual(['everything__echo', 'task_list'])
      const echo = await client.callTool({ name: 'everything__echo', arguments: { message: 'hi' } })
      expect(textOf(echo)).toBe('Echo: hi')
      await client.close()
    }
    const client = await connect(`/mcp/${id}`)
    await ask('bulk_assign_tools_to_agents', { assignments: [{ agentId: id, toolId: 'task_get' }] })
    expect(await namesOf(client)).toEqual(['everything__echo', 'task_get', 'task_list'])
    await client.close()
  })

  it('lists search and run alone if it says so, and everything assigned is found through them', async () => {
    const { path } = await newGateway({ name: 'Small', toolExposureMode: 'search_and_run_only' }, assigned)
    const client = await connect(path)
    expect(await namesOf(client)).toEqual(['run_tool', 'search_tools'])
    const found = await ask<{ tools: { name?: string; toolName?: string }[] }>(
      'search_tools',
      { query: 'echo' },
      client,
    )
    expect(JSON.stringify(found)).toContain('everything__echo')
    expect(JSON.stringify(found)).not.toContain('up__echo')
    const call = { tool_name: 'everything__echo', tool_args: { message: 'hi' } }
    expect(textOf(await client.callTool({ name: 'run_tool', arguments: call }))).toBe('Echo: hi')
    const outside = client.callTool({ name: 'run_tool', arguments: { tool_name: 'up__echo', tool_args: {} } })
    await expect(outside).rejects.toThrow('no tool is called "up__echo"')
    await client.close()
  })

  it('is there for those with whom it is shared, and for all others as if it were not', async () => {
    const key = async (name: string) =>
      String((await castellanJson({ dataDir }, ['keys', 'create', name, '--role', 'member']))['secret'])
    const [ann, bob] = [await key('ann'), await key('bob')]
    const annClient = await connect('/mcp?tools=full', { key: ann })
    const { path, id } = await ask<{ path: string; id: string }>(
      'create_mcp_gateway',
      { name: 'Mine', scope: 'personal' },
      annClient,
    )
    await ask(
      'bulk_assign_tools_to_mcp_gateways',
      { assignments: [{ mcpGatewayId: id, toolId: 'task_list' }] },
      annClient,
    )
    expect(await namesOf(await connect(path, { key: ann }))).toEqual(['task_list'])
    const answers = await Promise.all(
      [path, `/mcp/${id}`, '/mcp/none'].map(async (address) => {
        const response = await post(address, bob)
        return `${response.status} ${await response.text()}`
      }),
    )
    expect(new Set(answers.map((text) => text.replace(/"request_id":"[^"]*"/, ''))).size).toBe(1)
    expect(answers[0]).toContain('404')
    expect((await post('/mcp/none', 'cst_wrong')).status).toBe(401)
    expect((await post(`${path}?tools=full`, ann)).status).toBe(400)
    // What a caller may not use is not listed either, though it is assigned.
    const { path: shared } = await newGateway({ name: 'Rights' }, ['api_key_list', 'task_list'])
    expect(await namesOf(await connect(shared, { key: bob }))).toEqual(['task_list'])
    expect(await namesOf(await connect(shared))).toEqual(['api_key_list', 'task_list'])
  })

  it('has sessions that belong to it and its caller', async () => {
    const [first, second] = [
      await newGateway({ name: 'One' }, ['task_list']),
      await newGateway({ name: 'Two' }, ['task_get']),
    ]
    const opened = await post(first.path, undefined, initialize)
    const session = { 'mcp-session-id': opened.headers.get('mcp-session-id')! }
    const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' }
    expect((await post(first.path, undefined, list, session)).status).toBe(200)
    expect((await post(second.path, undefined, list, session)).status).toBe(404)
    expect((await post('/mcp', undefined, list, session)).status).toBe(404)
    await ask('delete_mcp_gateway', { id: first.id })
    expect((await post(first.path, undefined, list, session)).status).toBe(404)
  })

  it('is noticed when it changes', async () => {
    const { id, path } = await newGateway({ name: 'Changing' }, ['task_list'])
    let changes = 0
    const client = new Client(
      { name: 'test', version: '1' },
      {
        versionNegotiation: { mode: 'legacy' },
        listChanged: { tools: { autoRefresh: false, onChanged: () => changes++ } },
      },
    )
    await client.connect(new StreamableHTTPClientTransport(addressOf(path)))
    expect(await namesOf(client)).toEqual(['task_list'])
    await ask('unassign_tools_from_mcp_gateway', { mcpGatewayId: id, toolIds: ['task_list'] })
    await expect.poll(() => changes).toBeGreaterThan(0)
    expect(await namesOf(client)).toEqual([])
    await client.close()
  })
})

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}

const post = (path: string, key?: string, body: Row = initialize, headers: Record<string, string> = {}) =>
  fetch(addressOf(path), {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...headers,
    },
    body: JSON.stringify(body),
  })
