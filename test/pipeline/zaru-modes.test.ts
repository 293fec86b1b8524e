import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { exposureOfUrl } from '../../src/mcp/exposure.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { hasTool, zaruModes } from '../../src/tools/runtime/zaru-modes.ts'
import { openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import {
  type HttpTransportApp,
  mcpHeaders,
  openHttpTransportApp,
  type ServedTransport,
  send,
} from '../support/http-transport-peer.ts'
import { runCastellan } from '../support/run-castellan.ts'

/** The document's table, by tool: C, Ag, Ex, Ar; the operator has all. */
const table: Readonly<Record<string, readonly string[]>> = {
  'zaru.switch_mode': ['chat', 'agentic', 'execute', 'architect'],
  'aegis.schema.get': ['architect'],
  'aegis.schema.validate': ['architect'],
  'aegis.agent.list': ['agentic', 'architect'],
  'aegis.agent.generate': ['agentic', 'architect'],
  'aegis.agent.logs': ['agentic', 'architect'],
  'aegis.agent.wait': ['agentic', 'architect'],
  'aegis.workflow.list': ['architect'],
  'aegis.workflow.generate': ['architect'],
  'aegis.workflow.logs': ['architect'],
  'aegis.workflow.wait': ['execute', 'architect'],
  'aegis.task.execute': ['agentic', 'architect'],
  'aegis.task.list': ['agentic'],
  'aegis.task.cancel': ['agentic'],
  'aegis.task.logs': ['agentic'],
  'aegis.task.wait': ['agentic', 'architect'],
  'aegis.execute.intent': ['execute'],
  'aegis.execute.status': ['execute'],
  'aegis.execute.wait': ['execute'],
  'aegis.tools.list': ['agentic'],
  'aegis.tools.search': ['agentic'],
  'fs.read': [],
  'aegis.agent.create': [],
  'aegis.workflow.run': [],
  task_list: [],
}

let app: TestApp
let peer: HttpTransportApp
let served: ServedTransport
let home: string
beforeAll(async () => {
  app = await openTestApp()
  peer = await openHttpTransportApp()
  served = await peer.serve()
  home = await mkdtemp(join(tmpdir(), 'castellan-modes-'))
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await peer.close()
  await rm(home, { recursive: true, force: true })
})

const at = (query: string, transport: ToolCaller['transport'] = 'http'): ToolCaller => ({
  ...ownerCaller,
  transport,
  exposure: exposureOfUrl(`/mcp?${query}`),
})
const listed = async (caller: ToolCaller): Promise<string[]> =>
  (await app.app.host.list(caller)).map(({ name }) => name)

describe('the modes', () => {
  it('have the tools that the table gives them', () => {
    for (const [name, modes] of Object.entries(table)) {
      expect([name, zaruModes.filter((mode) => hasTool(mode, name))]).toEqual([name, [...modes, 'operator']])
    }
  })

  it.each(zaruModes)('%s lists exactly its tools, and refuses all others by name', async (mode) => {
    const names = app.app.catalog.names.filter((name) => hasTool(mode, name))
    expect(await listed(at(`mode=${mode}`))).toEqual(names)
    const answer = await app.call('task_list', {}, at(`mode=${mode}`))
    expect(answer.failure?.code).toBe(mode === 'operator' ? undefined : 'ERR_MODE_REFUSED')
    const around = await app.call('run_tool', { tool_name: 'task_list', tool_args: {} }, at(`mode=${mode}`))
    expect(around.failure?.code).toBe(mode === 'operator' ? undefined : 'ERR_MODE_REFUSED')
  })

  it('only take away: from what was chosen, and from what is permitted', async () => {
    expect(await listed(at('mode=operator&tools=server'))).toEqual(['server_health', 'server_ping'])
    expect(await listed(at('mode=chat&tools=server'))).toEqual([])
    const member = await app.keyCaller({ scopes: ['task:read'] })
    expect(await listed({ ...at('mode=operator'), principal: member.principal })).not.toContain('task_create')
    expect(
      (await app.call('task_create', {}, { ...at('mode=operator'), principal: member.principal })).failure?.code,
    ).toBe('ERR_PERMISSION_DENIED')
  })
})

describe('zaru.switch_mode', () => {
  const args = { target_mode: 'agentic', reason: 'This request requires running an agent.' }

  it('asks the client, in every mode', async () => {
    for (const mode of zaruModes) {
      expect(await app.ask('zaru.switch_mode', args, at(`mode=${mode}`))).toEqual({
        action: 'mode_switch_requested',
        ...args,
      })
    }
    expect((await app.refusal('zaru.switch_mode', { ...args, target_mode: 'live' }, at(''))).code).toBe(
      'ERR_INVALID_INPUT',
    )
  })

  it.each(['stdio', 'cli', 'rest', 'seal', 'agent', 'engine'] as const)('is not offered over %s', async (transport) => {
    expect(await listed({ ...ownerCaller, transport })).not.toContain('zaru.switch_mode')
    expect((await app.refusal('zaru.switch_mode', args, { ...ownerCaller, transport })).code).toBe('ERR_UNKNOWN_TOOL')
    const around = { tool_name: 'zaru.switch_mode', tool_args: args }
    expect((await app.refusal('run_tool', around, { ...ownerCaller, transport })).code).toBe('ERR_UNKNOWN_TOOL')
  })
})

describe('over the wire', () => {
  const rpc = async (path: string, method: string, params: object = {}) => {
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: {
        ...params,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    })
    const headers = {
      ...mcpHeaders,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...('name' in params ? { 'mcp-name': String(params.name) } : {}),
    }
    return await send(served, path, { method: 'POST', headers, body })
  }

  it('an address chooses a mode', async () => {
    const { body } = await rpc('/mcp?mode=chat', 'tools/list')
    expect((body['result'] as { tools: { name: string }[] }).tools.map(({ name }) => name)).toEqual([
      'zaru.switch_mode',
    ])
    const refused = await rpc('/mcp?mode=chat', 'tools/call', { name: 'task_list', arguments: {} })
    expect(refused.text).toContain('ERR_MODE_REFUSED')
    expect((await rpc('/mcp?mode=dance', 'tools/list')).status).toBe(400)
    expect((await send(served, '/v1/tools?mode=chat')).body['tools']).toEqual([])
    expect((await send(served, '/openapi.json')).text).not.toContain('zaru.switch_mode')
  })

  it('a mode of the server stays where an address chooses tools alone', async () => {
    const port = await peer.serve({ exposureDefault: { zaruMode: 'execute' } })
    const namesAt = async (query: string) =>
      ((await send(port, `/v1/tools${query}`)).body['tools'] as { name: string }[]).map(({ name }) => name)
    const ofMode = ['aegis.execute.intent', 'aegis.execute.status', 'aegis.execute.wait', 'aegis.workflow.wait']
    expect(await namesAt('')).toEqual(ofMode)
    expect(await namesAt('?tools=full')).toEqual(ofMode)
    expect(await namesAt('?tools=workflows,server')).toEqual(['aegis.workflow.wait'])
    expect(await namesAt('?mode=operator&tools=server')).toEqual(['server_health', 'server_ping'])
  })

  it.each([
    ['--mode', 'chat'],
    ['--zaru-mode', 'chat'],
  ])('the command line chooses it by %s', async (flag, mode) => {
    const input = [
      {
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
      },
      { method: 'notifications/initialized' },
      { id: 2, method: 'tools/list' },
    ]
    const text = input.map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`).join('')
    const { stdout } = await runCastellan(['mcp', flag, mode], { input: text, home })
    const answer = stdout.split('\n').find((line) => line.includes('"id":2'))
    expect(JSON.parse(answer!)).toMatchObject({ result: { tools: [] } })
  })

  it('other words for --mode are refused as before', async () => {
    const { code, stderr } = await runCastellan(['mcp', '--mode', 'chatty'], { input: '', home })
    expect([code === 0, stderr.includes('FULL, READONLY, TEST, MINIMAL')]).toEqual([false, true])
  })
})
