import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as OlderTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { launcher } from '../support/castellan-client.ts'
import { castellanJson } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { homeEnvironment, runCastellan } from '../support/run-castellan.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** `castellan mcp --url`: programs that speak over standard streams alone, on a server elsewhere. */
let server: ServerHere
let dataDir = ''
let key = ''

beforeEach(async () => {
  dataDir = newDataDir()
  key = String((await castellanJson({ dataDir }, ['keys', 'create', 'editor', '--role', 'editor']))['secret'])
  server = await serve()
})
afterEach(async () => await server.stop())

const serve = (port = '0') =>
  startServerHere({ dataDir, env: { CASTELLAN_REQUIRE_KEYS: 'true' }, args: ['--port', port] })

const program = (...args: readonly string[]) => ({
  command: launcher,
  args: ['mcp', '--url', new URL(server.url).origin, ...args],
  env: homeEnvironment(dataDir, { CASTELLAN_API_KEY: key }) as Record<string, string>,
})

describe('a client over standard streams', () => {
  it.each(['legacy', 'modern'] as const)('of the SDK of today calls tools: %s', async (mode) => {
    const versionNegotiation = mode === 'modern' ? { mode: { pin: '2026-07-28' } } : { mode: 'legacy' }
    const client = new Client({ name: 'a', version: '1' }, { versionNegotiation } as never)
    await client.connect(new StdioClientTransport(program()))
    const made = await client.callTool({ name: 'task_create', arguments: { title: 'x', project: 'p' } })
    expect(made.structuredContent).toMatchObject({ created_by: 'editor' })
    expect((await client.listTools()).tools.length).toBeGreaterThan(5)
    await client.close()
  })

  it('of version 1 chooses what it sees, calls several tools at once, and outlives a restart of the server', async () => {
    const client = new OlderClient({ name: 'a', version: '1' })
    await client.connect(new OlderTransport(program('--tools', 'task_create,task_list', '--names', 'safe')))
    expect((await client.listTools()).tools.map(({ name }) => name).sort()).toEqual(['task_create', 'task_list'])
    const titles = ['a', 'b', 'c', 'd']
    await Promise.all(
      titles.map((title) => client.callTool({ name: 'task_create', arguments: { title, project: 'p' } })),
    )
    const { port } = new URL(server.url)
    await server.stop()
    await expect(client.callTool({ name: 'task_list', arguments: {} })).rejects.toThrow('cannot be reached')
    server = await serve(port)
    const listed = await client.callTool({ name: 'task_list', arguments: {} })
    expect(listed.structuredContent).toMatchObject({ total_count: titles.length })
    await client.close()
  })
})

it('answers what was asked before the client left, and ends', async () => {
  const ask = (id: number, method: string, params: object) =>
    `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`
  const clientInfo = { name: 'x', version: '1' }
  const input = [
    ask(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }),
    `{"jsonrpc":"2.0","method":"notifications/initialized"}\n`,
    'no message\n',
    ask(2, 'tools/call', { name: 'server_ping', arguments: {} }),
  ].join('')
  const run = await runCastellan(program().args, { home: dataDir, environment: { CASTELLAN_API_KEY: key }, input })
  expect(run).toMatchObject({ code: 0, stderr: '' })
  const answers = run.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: number; error?: object })
  expect(answers.map(({ id }) => id).sort()).toEqual([1, 2, null])
})

it('says why the server refuses', async () => {
  const { command, args, env } = program()
  const client = new OlderClient({ name: 'a', version: '1' })
  const transport = new OlderTransport({ command, args, env: { ...env, CASTELLAN_API_KEY: 'cst_wrong' } })
  await expect(client.connect(transport)).rejects.toThrow('does not accept this API key')
  await client.close()
})
