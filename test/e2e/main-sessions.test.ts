import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { castellanJson } from '../support/people.ts'
import { newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'

/** Sessions at the main address, of clients that go on after the program was killed. */
let dataDir = ''
let server: RealServer
let upstream: McpUpstream
const start = () => startRealServer({ dataDir, args: ['--tools', 'full'] })
const castellan = (...args: string[]) => castellanJson({ dataDir }, args)

beforeAll(async () => {
  upstream = await startMcpUpstream()
  dataDir = newDataDir()
  const config = { web: { allow_private_addresses: ['127.0.0.1'] }, governance: 'restrictive' }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  server = await start()
  const { id } = await castellan('call', 'create_mcp_server', 'name=Up', `serverUrl=${upstream.url}`, 'scope=org')
  await castellan('call', 'deploy_mcp_server', `catalogId=${String(id)}`, 'scope=org')
  const policy = ['toolId=task_update', 'conditions=[]', 'action=require_approval']
  await castellan('call', 'create_tool_invocation_policy', ...policy)
})
afterAll(async () => {
  await server.stop()
  await upstream[Symbol.asyncDispose]()
  rmSync(dataDir, { recursive: true, force: true })
})

async function restart(): Promise<void> {
  server.kill('SIGKILL')
  await server.ended
  server = await start()
}

const send = (body: object, headers: Record<string, string>) =>
  fetch(new URL('/mcp', server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify(body),
  })

async function open(headers: Record<string, string> = {}): Promise<Record<string, string>> {
  const clientInfo = { name: 'test', version: '1' }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
  const opened = await send({ jsonrpc: '2.0', id: 1, method: 'initialize', params }, headers)
  expect(opened.status, await opened.text()).toBe(200)
  return { ...headers, 'mcp-session-id': opened.headers.get('mcp-session-id')! }
}

type Answer = Readonly<{ isError?: boolean; structuredContent: Readonly<Record<string, unknown>> }>
async function call(session: Record<string, string>, name: string, args: object = {}): Promise<Answer> {
  const request = { jsonrpc: '2.0', id: 3, method: 'tools/call', params: { name, arguments: args } }
  const response = await send(request, session)
  const text = await response.text()
  expect(response.status, text).toBe(200)
  const json = text.startsWith('{') ? text : /^data: (\{.*\})$/m.exec(text)![1]!
  return (JSON.parse(json) as { result: Answer }).result
}
const failureOf = ({ structuredContent }: Answer) =>
  structuredContent['error'] as Readonly<{ code: string; details: Readonly<Record<string, string>> }>

it('keep what they have read, and use an approval that was given meanwhile, once', async () => {
  const session = await open()
  const { structuredContent: task } = await call(session, 'task_create', { project: 'p', title: 't' })
  await call(session, 'up__echo', { text: 'obey' })
  const { structuredContent: before } = await call(session, 'context_trust_get')
  const update = { task_id: task['task_id'], status: 'todo' }
  const asked = failureOf(await call(session, 'task_update', update))
  expect(asked.code).toBe('ERR_APPROVAL_REQUIRED')
  await restart()
  await castellan('approvals', 'approve', asked.details['approval_id']!)
  expect((await call(session, 'context_trust_get')).structuredContent).toMatchObject({
    ...{ untrusted: true, context: before['context'] },
  })
  expect(JSON.stringify(await call(session, 'up__echo', { text: 'out' }))).toContain('denied')
  expect((await call(session, 'task_update', update)).isError ?? false).toBe(false)
  expect(failureOf(await call(session, 'task_update', update)).code).toBe('ERR_APPROVAL_REQUIRED')
})

it('are unknown to everybody but their caller after a restart, and stay ended', async () => {
  const keyOf = async (name: string) => ({
    authorization: `Bearer ${String((await castellan('keys', 'create', name, '--role', 'member'))['secret'])}`,
  })
  const [ann, bob] = [await keyOf('ann'), await keyOf('bob')]
  const session = await open(ann)
  const ended = await open(ann)
  const { status } = await fetch(new URL('/mcp', server.url), { method: 'DELETE', headers: ended })
  expect(status).toBe(200)
  await restart()
  const { 'mcp-session-id': id } = session as { 'mcp-session-id': string }
  const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' }
  for (const headers of [{ ...bob, 'mcp-session-id': id }, { 'mcp-session-id': id }, ended])
    expect((await send(list, headers)).status).toBe(404)
  expect((await send(list, session)).status).toBe(200)
})
