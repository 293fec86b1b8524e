import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { filesBelow } from '../support/files-below.ts'
import { startMcpUpstream } from '../support/mcp-upstream.ts'
import { castellanJson } from '../support/people.ts'
import { type RealServer, startRealServer } from '../support/real-server.ts'

/** A real client, the real program, and real MCP servers behind it. */
const packages = resolve('node_modules')
const entry = (name: string): string => `${packages}/@modelcontextprotocol/server-${name}/dist/index.js`

let dataDir = ''
let server: RealServer
const start = () => startRealServer({ dataDir, args: ['--tools', 'full'] })
beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-mcp-'))
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    `workspaces: { mounts: [{ path: ${packages}, mode: ro }], store_gb: 2 }\n`,
  )
  server = await start()
})
afterEach(async () => {
  await server.stop()
  await endSupervisor(dataDir)
  rmSync(dataDir, { recursive: true, force: true })
})

async function connect(mode: 'auto' | 'legacy', onChanged = () => {}): Promise<Client> {
  const client = new Client(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode }, listChanged: { tools: { autoRefresh: false, onChanged } } },
  )
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url)))
  return client
}
const textOf = (answer: Awaited<ReturnType<Client['callTool']>>): string =>
  String((answer.content[0] as { text?: string } | undefined)?.text)

test.each(['auto', 'legacy'] as const)(
  'a client (%s) deploys a server, finds its tools and calls them, also after a restart',
  async (mode) => {
    let changes = 0
    const client = await connect(mode, () => changes++)
    const mounts = [{ host_path: packages, path: packages }]
    const args = { name: 'Everything', command: 'node', arguments: [entry('everything'), 'stdio'], mounts }
    await client.callTool({ name: 'create_mcp_server', arguments: args })
    const deployed = await client.callTool({ name: 'deploy_mcp_server', arguments: { catalogId: 'Everything' } })
    expect(deployed.structuredContent).toMatchObject({ status: 'success', error: null })
    const names = async (of: Client) => (await of.listTools()).tools.map(({ name }) => name)
    expect(await names(client)).toContain('everything__echo')
    await expect.poll(() => changes).toBeGreaterThan(0)
    const echo = (of: Client) => of.callTool({ name: 'everything__echo', arguments: { message: 'hi' } })
    expect(textOf(await echo(client))).toBe('Echo: hi')
    await client.close()
    server.kill('SIGKILL')
    await server.ended
    server = await start()
    const again = await connect(mode)
    expect(await names(again)).toContain('everything__echo')
    expect(textOf(await echo(again))).toBe('Echo: hi')
    const found = await again.callTool({ name: 'search_tools', arguments: { query: 'echo a message' } })
    expect(JSON.stringify(found.structuredContent)).toContain('everything__echo')
    await again.close()
  },
)

test('a castellan behind a castellan speaks the newest revision', async () => {
  const behind = await startRealServer({ args: ['--tools', 'ledger'] })
  try {
    await server.stop()
    writeFileSync(join(dataDir, 'castellan.yaml'), 'web: { allow_private_addresses: ["127.0.0.1"] }\n')
    server = await start()
    const client = await connect('auto')
    // What comes from another Castellan is nobody's own, so it needs a key.
    const { secret } = await castellanJson(behind, ['keys', 'create', 'front', '--role', 'editor'])
    const authFields = [{ name: 'Authorization', label: 'Key', type: 'header', secret: true }]
    const item = { name: 'Behind', serverUrl: behind.url, requiresAuth: true, authFields }
    await client.callTool({ name: 'create_mcp_server', arguments: item })
    const values = { Authorization: `Bearer ${String(secret)}` }
    const deployed = await client.callTool({ name: 'deploy_mcp_server', arguments: { catalogId: 'Behind', values } })
    expect(deployed.structuredContent).toMatchObject({ status: 'success', error: null })
    const made = await client.callTool({ name: 'behind__task_create', arguments: { title: 'Through', project: 'p' } })
    expect(made.structuredContent).toMatchObject({ task_id: 'T-0001' })
    await client.close()
  } finally {
    await behind.stop()
  }
})

test('import takes the servers of a client over, with their secrets in the store', async () => {
  await using upstream = await startMcpUpstream()
  await server.stop()
  const settings = `workspaces: { mounts: [{ path: ${packages}, mode: ro }], store_gb: 2 }\nweb: { allow_private_addresses: ["127.0.0.1"] }\n`
  writeFileSync(join(dataDir, 'castellan.yaml'), settings)
  const secret = 'tok-0123456789-abcdef'
  const config = {
    mcpServers: {
      web: { url: upstream.url, type: 'sse', headers: { Authorization: `Bearer ${secret}` } },
      broken: { command: 'node', args: ['-e', 'process.exit(1)'], env: { API_TOKEN: secret } },
      off: { command: 'node', disabled: true },
    },
  }
  const file = join(dataDir, 'mcp.json')
  writeFileSync(file, JSON.stringify(config))
  const imported = await runCastellanHere(['import', file, '--data-dir', dataDir, '--json'], { home: dataDir })
  expect([imported.code, JSON.parse(imported.stdout)]).toMatchObject([
    6,
    {
      servers: [
        { name: 'web', outcome: 'deployed', tools: 5 },
        { name: 'broken', outcome: 'error' },
        { name: 'off', outcome: 'left out', tools: 0 },
      ],
    },
  ])
  expect(upstream.requests.at(-1)?.headers['authorization']).toBe(`Bearer ${secret}`)
  const again = await runCastellanHere(['import', file, '--data-dir', dataDir], { home: dataDir })
  expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/web +is there/)])
  expect(again.stdout).toMatch(/off +left out +0 +disabled in the file/)
  expect(again.stdout).toMatch(/\n1 problem\n/)
  expect(again.stdout).not.toContain('0 servers')
  const listed = await runCastellanHere(['secrets', 'list', '--data-dir', dataDir], { home: dataDir })
  expect(listed.stdout).toMatch(/web: Authorization[\s\S]*API_TOKEN|API_TOKEN[\s\S]*web: Authorization/)
  writeFileSync(file, JSON.stringify({ mcpServers: { inside: { url: 'http://10.1.2.3/mcp' } } }))
  const refused = await runCastellanHere(['import', file, '--data-dir', dataDir, '--json'], { home: dataDir })
  expect([refused.code, JSON.parse(refused.stdout)]).toEqual([
    4,
    { servers: [expect.objectContaining({ outcome: 'failed', tools: 0 })], problems: [] },
  ])
  const here = (...args: string[]) => runCastellanHere([...args, '--data-dir', dataDir, '--json'], { home: dataDir })
  await here('teams', 'create', 'design')
  writeFileSync(file, JSON.stringify({ mcpServers: { shared: { url: upstream.url, type: 'sse' } } }))
  const ofTeam = JSON.parse((await here('import', file, '--team', 'design')).stdout) as unknown
  expect(ofTeam).toMatchObject({ servers: [{ name: 'shared', outcome: 'deployed', tools: 5 }] })
  const { items } = JSON.parse((await here('call', 'get_mcp_servers')).stdout) as { items: { name: string }[] }
  expect(items.find(({ name }) => name === 'shared')).toMatchObject({
    scope: 'team',
    teams: [{ name: 'design' }],
    deployments: [{ scope: 'team' }],
  })
  rmSync(file)
  for (const path of filesBelow(dataDir))
    expect([path, readFileSync(path, 'latin1').includes(secret)]).toEqual([path, false])
  server = await start()
})
