import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { castellanJson } from '../support/people.ts'
import { newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'

/** Sessions at gateways, of clients that go on after the program was killed. */
let dataDir = ''
let server: RealServer
const start = () => startRealServer({ dataDir, args: ['--tools', 'full'] })

beforeAll(async () => {
  dataDir = newDataDir()
  server = await start()
  for (const name of ['One', 'Two']) {
    await castellanJson({ dataDir }, ['call', 'create_mcp_gateway', `name=${name}`])
    const assignments = JSON.stringify([{ mcpGatewayId: name.toLowerCase(), toolId: 'task_list' }])
    await castellanJson({ dataDir }, ['call', 'bulk_assign_tools_to_mcp_gateways', `assignments=${assignments}`])
  }
})
afterAll(async () => {
  await server.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

async function restart(): Promise<void> {
  server.kill('SIGKILL')
  await server.ended
  server = await start()
}

const send = (path: string, body: object | undefined, headers: Record<string, string> = {}, method = 'POST') =>
  fetch(new URL(path, server.url), {
    method,
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}
const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' }
const call = { jsonrpc: '2.0', id: 3, method: 'tools/call', params: { name: 'task_list', arguments: {} } }

async function open(path: string, headers: Record<string, string> = {}) {
  const opened = await send(path, initialize, headers)
  expect(opened.status, await opened.text()).toBe(200)
  return { ...headers, 'mcp-session-id': opened.headers.get('mcp-session-id')! }
}

it('go on after a restart, for their own caller at their own gateway', async () => {
  const keyOf = async (name: string) => ({
    authorization: `Bearer ${String((await castellanJson({ dataDir }, ['keys', 'create', name, '--role', 'member']))['secret'])}`,
  })
  const [ann, bob] = [await keyOf('ann'), await keyOf('bob')]
  const session = await open('/mcp/one')
  const annSession = await open('/mcp/one', ann)
  const ended = await open('/mcp/one')
  expect((await send('/mcp/one', undefined, ended, 'DELETE')).status).toBe(200)
  await restart()
  const { 'mcp-session-id': id } = annSession
  for (const [path, headers] of [
    ['/mcp/one', { ...bob, 'mcp-session-id': id }],
    ['/mcp/one', { 'mcp-session-id': id }],
    ['/mcp/two', session],
    ['/mcp', session],
    ['/mcp/one', ended],
  ] as const) {
    expect((await send(path, list, headers)).status).toBe(404)
  }
  const both = await Promise.all([send('/mcp/one', list, session), send('/mcp/one', call, session)])
  expect(both.map(({ status }) => status)).toEqual([200, 200])
  const texts = await Promise.all(both.map((response) => response.text()))
  expect(texts[0]).toContain('"name":"task_list"')
  expect(texts[1]).not.toContain('isError')
  expect((await send('/mcp/one', list, annSession)).status).toBe(200)
  expect((await send('/mcp/one', undefined, session, 'DELETE')).status).toBe(200)
  await restart()
  expect((await send('/mcp/one', list, session)).status).toBe(404)
  expect((await send('/mcp/one', call, annSession)).status).toBe(200)
  await castellanJson({ dataDir }, ['call', 'delete_mcp_gateway', 'id=one'])
  await restart()
  expect((await send('/mcp/one', list, annSession)).status).toBe(404)
})

it('end with the right to their gateway, and so do their streams', async () => {
  const { secret } = await castellanJson({ dataDir }, ['keys', 'create', 'cat', '--role', 'member'])
  const key = { authorization: `Bearer ${String(secret)}` }
  await castellanJson({ dataDir }, ['call', 'create_mcp_gateway', 'name=Shared'])
  const session = await open('/mcp/shared', key)
  const ownSession = await open('/mcp/shared')
  const listen = async (headers: Record<string, string>) => {
    const stream = await send('/mcp/shared', undefined, headers, 'GET')
    expect(stream.status).toBe(200)
    const ended = stream.text().then(
      () => 'ended',
      () => 'ended',
    )
    return { ended }
  }
  const [stream, ownStream] = [await listen(session), await listen(ownSession)]
  await castellanJson({ dataDir }, ['call', 'edit_mcp_gateway', 'id=shared', 'scope=personal'])
  expect(await stream.ended).toBe('ended')
  expect((await send('/mcp/shared', list, session)).status).toBe(404)
  expect((await send('/mcp/shared', list, ownSession)).status).toBe(200)
  await castellanJson({ dataDir }, ['call', 'edit_mcp_gateway', 'id=shared', 'scope=org'])
  expect((await send('/mcp/shared', list, session)).status).toBe(404)
  await castellanJson({ dataDir }, ['call', 'delete_mcp_gateway', 'id=shared'])
  expect(await ownStream.ended).toBe('ended')
})
