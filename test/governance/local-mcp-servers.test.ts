import { resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { identityOf, tenantId } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { ownerCaller, type TestApp } from '../support/app.ts'
import { openWorkspaceApp, rowsFor, sh } from '../support/workspaces.ts'

/** MCP servers from npm, each in a workspace of its own. */
const LOCAL = tenantId('local')
const packages = resolve('node_modules')
const SECRET = 'value-of-the-token-0123456789'
const entry = (name: string): string => `${packages}/@modelcontextprotocol/server-${name}/dist/index.js`
const mounts = [{ host_path: packages, path: packages }]

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp({ config: { 'workspaces.mounts': [`ro ${packages}`], 'mcp_servers.idle_secs': 600 } })
})
afterAll(() => app[Symbol.asyncDispose]())

type Deployed = { id: string; status: string; error: string | null; toolCount: number; state: string }
const create = (name: string, more: object) =>
  app.ask<{ id: string }>('create_mcp_server', { name, command: 'node', mounts, ...more })
const deploy = (catalogId: string, more: object = {}) => app.ask<Deployed>('deploy_mcp_server', { catalogId, ...more })
const logOf = async (serverId: string) =>
  (await app.ask<{ lines: string[] }>('get_mcp_server_logs', { serverId })).lines.join('\n')
const workspaceOf = async (id: string) => (await rowsFor(app)).find(({ name }) => name === `mcp-${id}`)
const deployment = async (id: string) =>
  (await app.ask<{ deployments: Deployed[] }>('list_mcp_server_deployments')).deployments.find((one) => one.id === id)!

async function callTool(name: string, args: object) {
  const tools = await (await app.app.ready).upstreamTools!()
  const { id } = (await tools.list(LOCAL)).flatMap((list) => list.tools).find((tool) => tool.name === name)!
  const target = {
    tenant: LOCAL,
    toolId: id,
    principal: ownerCaller.principal,
    credential: { mode: 'dynamic' as const },
  }
  return await tools.call(target, args as Record<string, unknown>, { signal: new AbortController().signal })
}
const textOf = ({ content }: Awaited<ReturnType<typeof callTool>>): string => String(content[0]?.['text'])

describe('a local MCP server', () => {
  it('runs in a workspace over its standard streams, and stops without leaving a process', async () => {
    await create('Everything', { arguments: [entry('everything'), 'stdio'] })
    const { id, ...made } = await deploy('everything')
    expect(made).toMatchObject({ status: 'success', error: null, state: 'running' })
    expect(made.toolCount).toBeGreaterThan(5)
    expect(textOf(await callTool('everything__echo', { message: 'hello' }))).toBe('Echo: hello')
    expect(await workspaceOf(id)).toMatchObject({ state: 'running' })
    // Whatever ends it, the next call starts it again.
    await sh(app, `mcp-${id}`, 'pkill -KILL node || true')
    await expect.poll(async () => (await deployment(id)).state).not.toBe('running')
    await expect
      .poll(async () => callTool('everything__echo', { message: 'again' }).then(textOf, ({ code }) => code), {
        timeout: 180_000,
      })
      .toBe('Echo: again')
    expect(await logOf(id)).toContain('the process ended')
    expect((await deployment(id)).state).toBe('running')
    await app.ask('delete_mcp_server_deployment', { serverId: id })
    expect(await workspaceOf(id)).toBeUndefined()
  })

  it('keeps what it wrote, has its environment and secret files, and its log shows no secret', async () => {
    const script = `
      const { readFileSync, appendFileSync } = require('node:fs')
      console.error('my token is', process.env.TOKEN)
      const answers = {
        initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }),
        'tools/list': () => ({ tools: [{ name: 'look', inputSchema: { type: 'object' } }] }),
        'tools/call': () => {
          appendFileSync('/var/calls', '.')
          const text = [process.env.PLAIN, process.env.TOKEN.length, readFileSync('/secrets/FILE', 'utf8').length, readFileSync('/var/calls', 'utf8'), readFileSync('/var/installed', 'utf8')]
          return { content: [{ type: 'text', text: text.join(' ') }] }
        },
      }
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method, params } = JSON.parse(line)
        if (id === undefined) return
        const answer = answers[method]
        const body = answer ? { result: answer(params) } : { error: { code: -32601, message: 'no such method' } }
        console.log(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
      })`
    const environment = [
      { key: 'PLAIN', type: 'plain_text', value: 'plain', promptOnInstallation: false },
      { key: 'TOKEN', type: 'secret', promptOnInstallation: true, required: true },
      { key: 'FILE', type: 'secret', value: SECRET, mounted: true, promptOnInstallation: false },
    ]
    const installationCommand = 'printf x >> /var/installed'
    await create('Written', { arguments: ['-e', script], environment, installationCommand })
    expect(await deploy('written')).toMatchObject({ status: 'pending' })
    const { id, ...made } = await deploy('written', { values: { TOKEN: SECRET } })
    expect(made).toMatchObject({ status: 'success', toolCount: 1 })
    const size = SECRET.length
    expect(textOf(await callTool('written__look', {}))).toBe(`plain ${size} ${size} . x`)
    await app.ask('edit_mcp_config', {
      id: 'written',
      environment: [
        { ...environment[0], value: 'other' },
        ...environment.slice(1).map((one) => (one.value === undefined ? one : { ...one, value: SECRET })),
      ],
    })
    expect((await deployment(id)).state).toBe('stopped')
    expect(await workspaceOf(id)).toMatchObject({ state: 'stopped' })
    expect(textOf(await callTool('written__look', {}))).toBe(`other ${size} ${size} .. x`)
    const log = await logOf(id)
    expect(log).toContain('my token is ***')
    expect(log).not.toContain(SECRET)
  })

  it('that is silent for long, such as while npx downloads it, is started only once', async () => {
    const script = `
      require('node:fs').appendFileSync('/var/starts', '.')
      let unknown
      const answers = {
        initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }),
        'tools/list': () => ({ tools: [{ name: 'any', inputSchema: { type: 'object' } }] }),
      }
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method, params } = JSON.parse(line)
        if (id === undefined) return
        if (!answers[method]) return void (unknown = id)
        console.log(JSON.stringify({ jsonrpc: '2.0', id, result: answers[method](params) }))
        console.log(JSON.stringify({ jsonrpc: '2.0', id: unknown, error: { code: -32601, message: 'too late' } }))
      })`
    await create('Slow', { arguments: ['-e', script] })
    const { id, ...made } = await deploy('slow')
    expect(made).toMatchObject({ status: 'success', toolCount: 1 })
    expect(await sh(app, `mcp-${id}`, 'cat /var/starts')).toMatchObject({ stdout: '.' })
    expect(await logOf('slow')).toContain('starting node, which may reach no host')
    expect(await logOf('slow')).not.toContain('too late')
    await create('Slow', { arguments: ['-e', script], scope: 'org' })
    for (const [tool, field] of [
      ['get_mcp_server_logs', 'serverId'],
      ['get_mcp_server_tools', 'mcpServerId'],
      ['deploy_mcp_server', 'catalogId'],
      ['create_mcp_server_installation_request', 'catalogId'],
      ['delete_mcp_server', 'id'],
    ] as const) {
      expect(await app.refusal(tool, { [field]: 'slow' })).toMatchObject({
        message: expect.stringMatching(new RegExp(`^${field}: several MCP servers have this name`)),
        details: { field },
      })
      if (field === 'serverId') continue
      expect(await app.refusal(tool, { [field]: 'slo' })).toMatchObject({
        message: `${field}: there is no such MCP server that you can see; get_mcp_servers lists them`,
        details: { field },
      })
    }
  })

  it('whose folder is not allowed says so in its log, in whole sentences', async () => {
    await create('Outside', { arguments: ['-e', '0'], mounts: [{ host_path: '/etc', path: '/workspace/etc' }] })
    const { error } = await deploy('outside')
    expect(error).toContain('the operator allows them in workspaces.mounts')
    expect(await logOf('outside')).toContain('in workspaces.mounts. The next start is possible in')
  })

  it('that listens on a port is reached through it', async () => {
    await create('Listening', {
      arguments: [entry('everything'), 'streamableHttp'],
      transportType: 'streamable-http',
      httpPort: 3001,
    })
    const { id, ...made } = await deploy('listening')
    expect(made).toMatchObject({ status: 'success', error: null })
    expect(textOf(await callTool('listening__echo', { message: 'over http' }))).toBe('Echo: over http')
    await app.ask('delete_mcp_server', { id: 'listening' })
    expect(await workspaceOf(id)).toBeUndefined()
  })

  it('that fails says why, and rests before it is tried again', async () => {
    await create('Broken', { arguments: ['-e', "console.error('cannot find the moon'); process.exit(3)"] })
    const { id, ...made } = await deploy('broken')
    expect(made).toMatchObject({ status: 'error', error: expect.stringContaining('ERR_UPSTREAM_UNAVAILABLE') })
    expect(await logOf(id)).toMatch(/cannot find the moon[\s\S]*exit code 3/)
    expect(await workspaceOf(id)).toMatchObject({ state: 'stopped' })
    expect(await deployment(id)).toMatchObject({ state: expect.stringMatching(/backing-off|stopped/), status: 'error' })
  })

  it('has its data in its own workspace: files and memory', async () => {
    await create('Files', { arguments: [entry('filesystem'), '/srv'] })
    await create('Memory', {
      arguments: [entry('memory')],
      environment: [
        { key: 'MEMORY_FILE_PATH', type: 'plain_text', value: '/srv/memory.json', promptOnInstallation: false },
      ],
    })
    await create('Thinking', { arguments: [entry('sequential-thinking')] })
    for (const name of ['files', 'memory', 'thinking'])
      expect([name, (await deploy(name)).status]).toEqual([name, 'success'])
    await callTool('files__write_file', { path: '/srv/note.txt', content: 'kept' })
    expect(textOf(await callTool('files__read_text_file', { path: '/srv/note.txt' }))).toBe('kept')
    expect(textOf(await callTool('files__read_text_file', { path: '/etc/passwd' }))).toContain('denied')
    await callTool('memory__create_entities', {
      entities: [{ name: 'Ann', entityType: 'person', observations: ['likes tea'] }],
    })
    expect(textOf(await callTool('memory__read_graph', {}))).toContain('likes tea')
    const thought = { thought: 'first', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }
    expect(textOf(await callTool('thinking__sequentialthinking', thought))).toContain('thoughtNumber')
  })

  it('of a team ends with its author, and the next who deploys it takes it over', async () => {
    const { id: team } = await app.ask<{ id: string }>(
      'user_team_create',
      { name: 'crew' },
      {
        ...ownerCaller,
        transport: 'cli',
      },
    )
    const inTeam = async (name: string): Promise<ToolCaller> => {
      const caller = await app.keyCaller({ name, role: 'editor' })
      return { ...caller, principal: { ...caller.principal, teams: [team] } }
    }
    const [ann, ben] = [await inTeam('ann'), await inTeam('ben')]
    const shared = { scope: 'team', teams: ['crew'] }
    const environment = [{ key: 'TOKEN', type: 'secret', promptOnInstallation: true, required: true }]
    // A mount would be the operator's to allow.
    const script = `
      const answers = {
        initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }),
        'tools/list': () => ({ tools: [{ name: 'look', inputSchema: { type: 'object' } }] }),
        'tools/call': () => ({ content: [{ type: 'text', text: 'here' }] }),
      }
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method, params } = JSON.parse(line)
        if (id === undefined) return
        const body = answers[method] ? { result: answers[method](params) } : { error: { code: -32601, message: 'no' } }
        console.log(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
      })`
    const item = { name: 'Crewed', command: 'node', arguments: ['-e', script], environment, ...shared }
    await app.ask('create_mcp_server', item, ann)
    const forTeam = { catalogId: 'Crewed', scope: 'team', teamId: 'crew' }
    const { id, status } = await app.ask<Deployed>('deploy_mcp_server', { ...forTeam, values: { TOKEN: SECRET } }, ann)
    expect(status).toBe('success')
    const look = () => app.call('crewed__look', {}, ben)
    expect((await look()).isError).toBe(false)
    await app.ask('api_key_revoke', { key: 'ann' })
    await expect.poll(async () => (await workspaceOf(id))?.state).toBe('stopped')
    // It does not come back behind the back of the one who is gone.
    // For a moment the server rests, because it has ended.
    await expect.poll(async () => (await look()).json).toContain('Deploy it again with deploy_mcp_server')
    expect((await workspaceOf(id))?.state).toBe('stopped')
    // What the author had entered is nobody else's: it is asked for anew.
    expect(await app.ask('deploy_mcp_server', forTeam, ben)).toMatchObject({ id, status: 'pending' })
    const again = await app.ask<Deployed>('deploy_mcp_server', { ...forTeam, values: { TOKEN: 'that-of-ben' } }, ben)
    expect(again).toMatchObject({ id, status: 'success', error: null })
    expect(await workspaceOf(id)).toMatchObject({ state: 'running', owner: identityOf(ben.principal) })
    await app.ask('delete_mcp_server', { id: 'Crewed' })
  })
})
