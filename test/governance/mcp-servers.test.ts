import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tenantId } from '../../src/contract/principal.ts'
import type { UpstreamTarget } from '../../src/contract/upstream-tools.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { filesBelow } from '../support/files-below.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

type Row = Record<string, unknown>
type Deployed = {
  id: string
  status: string
  error: string | null
  toolCount: number
  isNew: boolean
  link?: { url: string }
}
const LOCAL = tenantId('local')
const SECRET = 'tok-0123456789-"very"-secret'

let app: TestApp
let upstream: McpUpstream
beforeEach(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const create = (more: object = {}, caller?: ToolCaller) =>
  app.ask<{ id: string; name: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, ...more }, caller)
const deploy = (catalogId: string, more: object = {}, caller?: ToolCaller) =>
  app.ask<Deployed>('deploy_mcp_server', { catalogId, ...more }, caller)
const toolsOf = async (mcpServerId: string) =>
  app.ask<{ tools: { id: string; name: string }[]; problems: Row[] }>('get_mcp_server_tools', { mcpServerId })
const upstreamTools = async () => (await app.app.ready).upstreamTools!()

async function callTool(name: string, args: object, caller = ownerCaller, more: Partial<UpstreamTarget> = {}) {
  const tools = await upstreamTools()
  const { principal } = caller
  const tool = (await tools.list(principal.tenant))
    .flatMap((list) => list.tools)
    .find((one) => one.name === name || one.aliases.includes(name))!
  const target = {
    tenant: principal.tenant,
    toolId: tool.id,
    principal,
    credential: { mode: 'dynamic' as const },
    ...more,
  }
  return await tools.call(target, args as Row, { signal: new AbortController().signal })
}

describe('a remote MCP server', () => {
  it.each(['streamable-http', 'sse'] as const)('is deployed, lists its tools and answers over %s', async (kind) => {
    await using other = await startMcpUpstream(kind)
    const { id } = await create({ serverUrl: other.url })
    expect(await deploy('up')).toMatchObject({ status: 'success', error: null, toolCount: 5, isNew: true })
    const { tools } = await toolsOf(id)
    expect(tools.map(({ name }) => name)).toEqual(['up__echo', 'up__fail', 'up__hang', 'up__steps', 'up__sum'])
    expect(await callTool('up__echo', { text: 'ü' })).toEqual({
      content: [{ type: 'text', text: 'ü' }],
      _meta: { 'example/trace': 'x' },
    })
    expect(await callTool('up__sum', { a: 1, b: 2 })).toMatchObject({ structuredContent: { sum: 3 } })
    expect(await callTool('up__fail', {})).toMatchObject({ isError: true, content: [{ text: 'it broke' }] })
    expect(await callTool('up__sum', { a: 'x' })).toMatchObject({ isError: true })
  })

  it('reports progress', async () => {
    await deploy((await create()).id)
    const tools = await upstreamTools()
    const tool = (await tools.list(LOCAL)).flatMap((list) => list.tools).find(({ name }) => name === 'up__steps')!
    const seen: unknown[] = []
    await tools.call(
      { tenant: LOCAL, toolId: tool.id, principal: ownerCaller.principal, credential: { mode: 'dynamic' } },
      {},
      { signal: new AbortController().signal, onProgress: (update) => seen.push(update) },
    )
    expect(seen).toEqual([
      { progress: 1, total: 2 },
      { progress: 2, total: 2 },
    ])
  })

  it('gets header, query and cookie from what was entered, and nobody sees or stores it as it is', async () => {
    const authFields = [
      { name: 'X-Token', label: 'Token', type: 'header', secret: true },
      { name: 'account', label: 'Account', type: 'query', secret: false },
      { name: 'sid', label: 'Session', type: 'cookie', secret: true },
    ]
    const userConfig = {
      key: { type: 'string', sensitive: true, required: true, headerName: 'Authorization', valuePrefix: 'Bearer ' },
    }
    const { id } = await create({ requiresAuth: true, authFields, userConfig })
    const pending = await deploy(id)
    expect(pending).toMatchObject({
      status: 'pending',
      toolCount: 0,
      link: { url: expect.stringContaining('/secrets/') },
    })
    expect(upstream.requests).toEqual([])
    const token = pending.link!.url.split('/').at(-1)!
    const values = { 'X-Token': SECRET, account: 'a 1', sid: `${SECRET}-2`, key: `${SECRET}-3` }
    await app.ask('secret_link_submit', { token, values })
    await expect.poll(async () => (await deployments())[0]).toMatchObject({ status: 'success', error: null })
    const { headers, url } = upstream.requests.at(-1)!
    expect([headers['x-token'], headers['authorization'], headers['cookie']]).toEqual([
      SECRET,
      `Bearer ${SECRET}-3`,
      `sid=${encodeURIComponent(`${SECRET}-2`)}`,
    ])
    expect(new URL(url, upstream.url).searchParams.get('account')).toBe('a 1')
    const answers = await Promise.all(
      ['get_mcp_servers', 'list_mcp_server_deployments', 'secret_list'].map(
        async (tool) => (await app.call(tool)).json,
      ),
    )
    await app.stop()
    const stored = filesBelow(app.dataDir).map((path) => readFileSync(path, 'latin1'))
    for (const text of [...answers, ...stored]) {
      for (const form of [SECRET, JSON.stringify(SECRET).slice(1, -1)]) expect(text.includes(form)).toBe(false)
    }
  })

  const deployments = async () => (await app.ask<{ deployments: Row[] }>('list_mcp_server_deployments')).deployments

  it('that cannot be reached is an error in every list, and never an empty one', async () => {
    const { id } = await create()
    upstream.failWith(503)
    expect(await deploy(id)).toMatchObject({
      status: 'error',
      error: expect.stringContaining('ERR_UPSTREAM_UNAVAILABLE'),
    })
    expect(await app.ask('get_mcp_servers')).toMatchObject({ items: [{ deployments: [{ status: 'error' }] }] })
    expect(await toolsOf(id)).toMatchObject({
      tools: [],
      problems: [{ error: expect.stringContaining('ERR_UPSTREAM') }],
    })
    upstream.failWith(undefined)
    expect(await deploy(id)).toMatchObject({ status: 'success', isNew: false, toolCount: 5 })
    upstream.failWith(401)
    expect(await deploy(id)).toMatchObject({
      status: 'error',
      error: expect.stringContaining('ERR_UPSTREAM_UNAUTHORIZED'),
    })
    // What it listed before is still known.
    expect((await toolsOf(id)).tools).toHaveLength(5)
  })

  it('is found again after it forgot the session', async () => {
    await deploy((await create()).id)
    upstream.forgetSessions()
    expect(await callTool('up__echo', { text: 'again' })).toMatchObject({ content: [{ text: 'again' }] })
  })

  it('changes its tools, and their ids and names stay', async () => {
    const { id } = await create()
    await deploy(id)
    const tools = await upstreamTools()
    const before = await toolsOf(id)
    const version = tools.version(LOCAL)
    const told: string[] = []
    tools.onChanged((tenant) => told.push(tenant))
    upstream.addTool('later')
    await expect.poll(async () => (await toolsOf(id)).tools.map(({ name }) => name)).toContain('up__later')
    expect(tools.version(LOCAL)).toBeGreaterThan(version)
    expect(told).toContain('local')
    const { id: laterId } = (await toolsOf(id)).tools.find(({ name }) => name === 'up__later')!
    upstream.removeTool('later')
    await expect.poll(async () => toolsOf(id)).toEqual(before)
    await expect(callTool('up__echo', {}, ownerCaller, { toolId: laterId })).rejects.toMatchObject({
      code: 'ERR_UNKNOWN_TOOL',
    })
    upstream.addTool('later')
    await expect
      .poll(async () => (await toolsOf(id)).tools.find(({ id: one }) => one === laterId)?.name)
      .toBe('up__later')
  })

  it('keeps the old names of its tools as aliases after it was renamed', async () => {
    const { id } = await create()
    await deploy(id)
    const { tools: before } = await toolsOf(id)
    await app.ask('edit_mcp_description', { id, name: 'Öther thing' })
    const { tools } = await toolsOf(id)
    expect(tools.map(({ name }) => name)).toEqual([
      'other_thing__echo',
      'other_thing__fail',
      'other_thing__hang',
      'other_thing__steps',
      'other_thing__sum',
    ])
    expect(tools.map((tool) => tool.id).sort()).toEqual(before.map((tool) => tool.id).sort())
    expect(await callTool('up__echo', { text: 'old' })).toMatchObject({ content: [{ text: 'old' }] })
  })

  it('is judged by its address, when it is saved and when it is reached', async () => {
    const strict = await openTestApp()
    const refusal = await strict.refusal('create_mcp_server', { name: 'Here', serverUrl: upstream.url })
    expect(refusal).toMatchObject({ code: 'ERR_POLICY_VIOLATION', details: { violation: 'DomainNotAllowed' } })
    expect(await strict.ask('get_mcp_servers')).toEqual({ items: [] })
    await strict[Symbol.asyncDispose]()
    const { dataDir } = app
    const { id } = await create()
    await app.stop()
    app = await openTestApp({ dataDir })
    expect(await deploy(id)).toMatchObject({ status: 'error', error: expect.stringContaining('ERR_POLICY_VIOLATION') })
    expect(upstream.requests).toEqual([])
    expect(await app.refusal('edit_mcp_config', { id, serverUrl: 'http://169.254.169.254/' })).toMatchObject({
      code: 'ERR_POLICY_VIOLATION',
    })
  })

  it('with a host that nobody knows is refused by the name of the field, after its other rules', async () => {
    const serverUrl = 'http://no..such.host/mcp'
    const { id } = await create()
    const unknown = {
      code: 'ERR_WEB_FAILED',
      message: expect.stringMatching(/^serverUrl: .* cannot be resolved\..* call again\.$/),
      details: { field: 'serverUrl' },
    }
    const field = { name: 'X-Token', label: 'Token', type: 'header', secret: true }
    const authFields = [field, { ...field, name: 'x-token' }]
    const twice = { code: 'ERR_INVALID_INPUT', details: { field: 'headerName' } }
    const named = { name: 'Nowhere', serverUrl }
    expect(await app.refusal('create_mcp_server', named)).toMatchObject(unknown)
    expect(await app.refusal('create_mcp_server', { ...named, authFields })).toMatchObject(twice)
    expect(await app.refusal('edit_mcp_config', { id, serverUrl })).toMatchObject(unknown)
    expect(await app.refusal('edit_mcp_config', { id, serverUrl, authFields })).toMatchObject(twice)
  })

  it('rests after failures, and starts anew when it is deployed again', async () => {
    const { id } = await create()
    await deploy(id)
    upstream.failWith(500)
    upstream.forgetSessions()
    await expect(callTool('up__echo', { text: 'x' })).rejects.toMatchObject({ code: 'ERR_UPSTREAM_UNAVAILABLE' })
    upstream.failWith(undefined)
    expect(await deploy(id)).toMatchObject({ status: 'success' })
    expect(await callTool('up__echo', { text: 'x' })).toMatchObject({ content: [{ text: 'x' }] })
  })
})

describe('whose an MCP server is', () => {
  it('decides who sees it, changes it and uses it', async () => {
    const [editor, other, admin] = await Promise.all([
      app.keyCaller({ role: 'editor' }),
      app.keyCaller({ role: 'editor' }),
      app.keyCaller({ role: 'admin' }),
    ])
    const foreign = await app.keyCaller({ role: 'admin', tenant: 'other' })
    const { id } = await create({ name: 'Mine' }, editor)
    const names = async (caller: ToolCaller) =>
      (await app.ask<{ items: { name: string }[] }>('get_mcp_servers', {}, caller)).items.map(({ name }) => name)
    expect(await names(editor)).toEqual(['Mine'])
    expect(await names(other)).toEqual([])
    expect(await names(foreign)).toEqual([])
    for (const caller of [other, foreign]) {
      const attempts: [string, Row][] = [
        ['get_mcp_server_tools', { mcpServerId: id }],
        ['edit_mcp_description', { id, name: 'Theirs' }],
        ['edit_mcp_config', { id, command: 'x' }],
        ['deploy_mcp_server', { catalogId: id }],
        ['delete_mcp_server', { id }],
      ]
      for (const [tool, args] of attempts) {
        expect([tool, (await app.refusal(tool, args, caller)).code]).toEqual([tool, 'ERR_NOT_FOUND'])
      }
    }
    // A name of another user's own is neither told nor taken.
    await create({ name: 'Mine' }, other)
    expect(await app.refusal('create_mcp_server', { name: 'mine', command: 'x' }, editor)).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
    })
    expect(
      await app.refusal('create_mcp_server', { name: 'For all', command: 'x', scope: 'org' }, editor),
    ).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
    await create({ name: 'For all', scope: 'org' }, admin)
    expect(await names(editor)).toEqual(['For all', 'Mine'])
    expect(await app.refusal('edit_mcp_description', { id: 'for all', name: 'x' }, editor)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
  })

  it('lets a personal deployment serve nobody else', async () => {
    const [editor, other] = await Promise.all([app.keyCaller({ role: 'editor' }), app.keyCaller({ role: 'editor' })])
    await create({ scope: 'org' })
    const own = await deploy('Up', {}, editor)
    expect(await callTool('up__echo', { text: '1' }, editor)).toMatchObject({ content: [{ text: '1' }] })
    await expect(callTool('up__echo', { text: '1' }, other)).rejects.toMatchObject({ code: 'ERR_CREDENTIAL_REQUIRED' })
    const stolen = { credential: { mode: 'static' as const, deploymentId: own.id } }
    await expect(callTool('up__echo', { text: '1' }, other, stolen)).rejects.toMatchObject({
      code: 'ERR_CREDENTIAL_REQUIRED',
    })
    await expect(callTool('up__echo', { text: '1' }, ownerCaller, stolen)).rejects.toMatchObject({
      code: 'ERR_CREDENTIAL_REQUIRED',
    })
    expect(await app.refusal('get_mcp_server_logs', { serverId: own.id }, other)).toMatchObject({
      code: 'ERR_NOT_FOUND',
    })
    await deploy('Up', { scope: 'org' })
    expect(await callTool('up__echo', { text: '2' }, other)).toMatchObject({ content: [{ text: '2' }] })
    expect(await app.refusal('deploy_mcp_server', { catalogId: 'Up', scope: 'org' })).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
    })
    expect(await app.refusal('deploy_mcp_server', { catalogId: 'Up', scope: 'org' }, editor)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
    expect(await app.refusal('deploy_mcp_server', { catalogId: 'Up', scope: 'team' })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
    })
    const tools = await upstreamTools()
    const foreign = await app.keyCaller({ role: 'admin', tenant: 'other' })
    expect((await tools.visibleTo(foreign.principal)).byItem.size).toBe(0)
    expect((await tools.visibleTo(other.principal)).byItem.size).toBe(1)
    await app.ask('delete_mcp_server_deployment', { serverId: own.id }, editor)
    expect(await callTool('up__echo', { text: '3' }, editor)).toMatchObject({ content: [{ text: '3' }] })
  })

  it('takes only secrets that are its author’s', async () => {
    const editor = await app.keyCaller({ role: 'editor' })
    const { reference } = await app.ask<{ reference: string }>('secret_link_create', { purpose: 'mine' })
    const variable = { key: 'A', type: 'secret', promptOnInstallation: false, value: reference }
    const server = { name: 'Thief', command: 'env', environment: [variable] }
    expect(await app.refusal('create_mcp_server', server, editor)).toMatchObject({ code: 'ERR_NOT_FOUND' })
    for (const value of ['env:HOME', 'file:/etc/passwd']) {
      const other = { ...server, environment: [{ ...variable, value }] }
      expect(await app.refusal('create_mcp_server', other, editor)).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    }
    await app.ask('create_mcp_server', server)
  })
})
