import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { openOauthPerson } from '../support/oauth-person.ts'
import { oauthProgram, type Saved } from '../support/oauth-program.ts'
import { castellanJson, newPerson } from '../support/people.ts'
import { createDatabase, freePort } from '../support/postgres.ts'
import { type RealServer, startRealServer } from '../support/real-server.ts'

/** Two processes on one PostgreSQL: what ends at one of them ends at the other too. */
let dataDir = ''
let here: RealServer
let there: RealServer
let key: Record<string, string>

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-ended-'))
  const port = await freePort()
  const database = await createDatabase(inject('postgresUrl'))
  const lines = [`database_url: ${database}`, 'require_keys: true', `public_url: http://127.0.0.1:${port}`]
  writeFileSync(join(dataDir, 'castellan.yaml'), `${lines.join('\n')}\n`)
  const { secret } = await castellanJson({ dataDir }, ['keys', 'create', 'ann', '--role', 'member'])
  key = { authorization: `Bearer ${String(secret)}` }
  here = await startRealServer({ dataDir, port })
  there = await startRealServer({ dataDir })
  await castellanJson({ dataDir }, ['call', 'create_mcp_gateway', 'name=Work'])
  const assignments = JSON.stringify([{ mcpGatewayId: 'work', toolId: 'task_list' }])
  await castellanJson({ dataDir }, ['call', 'bulk_assign_tools_to_mcp_gateways', `assignments=${assignments}`])
})
afterAll(async () => {
  await here.stop()
  await there.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

type Headers = Record<string, string>
const send = (server: RealServer, path: string, body: object | undefined, headers: Headers, method = 'POST') =>
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

async function open(server: RealServer, path: string, headers: Headers): Promise<Headers> {
  const opened = await send(server, path, initialize, headers)
  expect(opened.status, await opened.text()).toBe(200)
  return { ...headers, 'mcp-session-id': opened.headers.get('mcp-session-id')! }
}
async function listen(server: RealServer, path: string, headers: Headers) {
  const stream = await send(server, path, undefined, headers, 'GET')
  expect(stream.status).toBe(200)
  const ended = stream.text().then(
    () => 'ended',
    () => 'ended',
  )
  return { ended }
}
const status = async (server: RealServer, path: string, body: object, headers: Headers) => {
  const response = await send(server, path, body, headers)
  await response.text()
  return response.status
}

it('a session that its client ends at one process is unknown to the other at once, and its stream there ends', async () => {
  const session = await open(here, '/mcp/work', key)
  const kept = await open(there, '/mcp/work', key)
  const stream = await listen(there, '/mcp/work', session)
  expect(await status(there, '/mcp/work', list, session)).toBe(200)
  expect(await status(there, '/mcp/work', call, session)).toBe(200)
  expect((await send(here, '/mcp/work', undefined, session, 'DELETE')).status).toBe(200)
  expect(await status(there, '/mcp/work', call, session)).toBe(404)
  expect(await status(there, '/mcp/work', list, session)).toBe(404)
  expect(await status(here, '/mcp/work', list, session)).toBe(404)
  expect(await stream.ended).toBe('ended')
  expect(await status(here, '/mcp/work', call, kept)).toBe(200)
})

it('the stream of a session ends at the other process without any request there', async () => {
  const session = await open(there, '/mcp/work', key)
  const stream = await listen(there, '/mcp/work', session)
  expect((await send(here, '/mcp/work', undefined, session, 'DELETE')).status).toBe(200)
  expect(await stream.ended).toBe('ended')
})

it('a person who is signed out at one process loses what is open at the other, and others do not', async () => {
  await using browser = await openChromium()
  const ada = await newPerson(here, 'ada@example.com', ['--role', 'member'])
  await using person = await openOauthPerson(browser.context, ada)
  const saved: Saved = {}
  const authProvider = oauthProgram(saved, person.redirectUrl, { token_endpoint_auth_method: 'none' })
  const first = new StreamableHTTPClientTransport(new URL('/mcp', here.url), { authProvider })
  await expect(new Client({ name: 'a', version: '1' }).connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
  await first.finishAuth(await person.answer(saved.opened!))
  const token = { authorization: `Bearer ${saved.tokens!.access_token}` }
  const session = await open(there, '/mcp', token)
  const stream = await listen(there, '/mcp', session)
  const other = await open(there, '/mcp', key)
  const { sessions } = (await castellanJson({ dataDir }, ['users', 'sessions', ada.email])) as {
    sessions: { id: string; kind: string }[]
  }
  for (const { id } of sessions) await castellanJson({ dataDir }, ['users', 'revoke', ada.email, id])
  expect(await stream.ended).toBe('ended')
  expect(await status(there, '/mcp', list, session)).toBe(401)
  expect(await status(there, '/mcp', list, other)).toBe(200)
})
