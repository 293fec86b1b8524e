import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, inject, type TestContext, test, vi } from 'vitest'
import { createSealClient } from '../../src/seal-client/seal-client.ts'
import { mcpHeaders } from '../support/http-transport-peer.ts'
import { createDatabase } from '../support/postgres.ts'
import { startRealServer } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What a key has open or at work, once the key is revoked or has expired, in the real program. */
type Row = Record<string, unknown>
type Key = Readonly<{ id: string; secret: string }>
const withKey = (key?: Key): Record<string, string> => (key ? { authorization: `Bearer ${key.secret}` } : {})

const unlimited = { CASTELLAN_RATE_LIMITS_ENABLED: 'false' }

async function start({ onTestFinished }: TestContext, env: Record<string, string> = {}): Promise<ServerHere> {
  const server = await startServerHere({ env: { ...unlimited, ...env } })
  onTestFinished(() => server.stop())
  return server
}

async function send(server: ServerHere, tool: string, args: object, key?: Key) {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...withKey(key) },
    body: JSON.stringify(args),
  })
  return { status: response.status, body: (await response.json()) as Row }
}

async function call(server: ServerHere, tool: string, args: object, key?: Key): Promise<Row> {
  const { status, body } = await send(server, tool, args, key)
  if (status >= 300) throw new Error(`${tool}: ${JSON.stringify(body)}`)
  return body
}

const newKey = async (server: ServerHere, name: string, more: object = {}): Promise<Key> =>
  (await call(server, 'api_key_create', { name, role: 'member', tier: 'user', ...more })) as unknown as Key

const initialize = (server: ServerHere, key?: Key): Promise<Response> =>
  fetch(server.url, {
    method: 'POST',
    headers: { ...mcpHeaders, ...withKey(key) },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
    }),
  })

/** A session with its stream; `ended` resolves when the server ends the stream, however it does. */
async function tryStream(server: ServerHere, key?: Key) {
  const opened = await initialize(server, key)
  await opened.text()
  if (opened.status === 503) return undefined
  expect(opened.status).toBe(200)
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id')! }
  const headers = { ...withKey(key), ...session }
  const stream = await fetch(server.url, { headers: { ...headers, accept: 'text/event-stream' } })
  expect(stream.status).toBe(200)
  return { headers, ended: stream.text().then(over, over) }
}
async function openStream(server: ServerHere, key?: Key) {
  const opened = await tryStream(server, key)
  if (opened === undefined) throw new Error('there was no room for a session')
  return opened
}
const over = (): 'ended' => 'ended'

/** A web server as a background job of a workspace, behind a forwarded port; answers how to ask it. */
async function serveFrom(
  server: ServerHere,
  workspace_id: unknown,
  key: Key,
): Promise<() => Promise<number | 'nothing'>> {
  const job = { workspace_id, action: 'start', command: 'exec python3 -m http.server 8000' }
  await call(server, 'exec_background', job, key)
  const { host_port } = await call(server, 'port_forward', { workspace_id, action: 'add', guest_port: 8000 }, key)
  return () =>
    fetch(`http://127.0.0.1:${host_port}/`, { signal: AbortSignal.timeout(2_000) }).then(
      ({ status }) => status,
      () => 'nothing',
    )
}

describe.each([
  ['revoked', (server: ServerHere, key: Key) => call(server, 'api_key_revoke', { key: key.id })],
  [
    'expired',
    async (server: ServerHere, key: Key) => {
      expireInStore(server.dataDir, key)
      await vi.waitUntil(async () => (await send(server, 'server_ping', {}, key)).status === 401, { timeout: 180_000 })
    },
  ],
] as const)('when a key is %s', (_, end) => {
  test.concurrent('its streams and sessions end, and those of others do not', async (context) => {
    const server = await start(context)
    const [key, other] = [await newKey(server, 'leaving', { expires_in: '1h' }), await newKey(server, 'staying')]
    const [shut, retained] = [await openStream(server, key), await openStream(server, other)]
    await end(server, key)
    expect(await shut.ended).toBe('ended')
    const ping = (headers: Record<string, string>) =>
      fetch(server.url, {
        method: 'POST',
        headers: { ...mcpHeaders, ...headers },
        body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      })
    expect((await ping(shut.headers)).status).toBe(401)
    expect((await ping(retained.headers)).status).toBe(200)
  })

  test.concurrent('its commands, background jobs and forwarded ports end', async (context) => {
    const { expect } = context
    const server = await start(context)
    const key = await newKey(server, 'leaving', { expires_in: '1h' })
    const { workspace_id } = await call(server, 'workspace_create', { name: 'left' }, key)
    const reach = await serveFrom(server, workspace_id, key)
    await expect.poll(reach).toBe(200)
    const exec = (command: string) => send(server, 'exec', { workspace_id, command, timeout_secs: 2_000 }, key)
    const command = exec('touch /begun; sleep 1000')
    await expect.poll(async () => (await exec('test -e /begun')).body['exit_code']).toBe(0)
    await end(server, key)
    const { status, body } = await command
    expect([status, body]).toMatchObject([
      499,
      { error: { code: 'ERR_CANCELLED', message: expect.stringContaining('revoked or has expired') } },
    ])
    await expect.poll(reach).toBe('nothing')
    const seen = async () => (await call(server, 'workspace_info', { workspace_id }))['state']
    await expect.poll(seen).toBe('stopped')
    expect(await call(server, 'workspace_info', { workspace_id })).toMatchObject({ network: { port_forwards: [] } })
  })
})

test('a key that is revoked through another process on the same database loses what it has open', async (context) => {
  const env = { CASTELLAN_DATABASE_URL: await createDatabase(inject('postgresUrl')) }
  const here = await start(context, env)
  const dataDir = here.dataDir
  const there = await startRealServer({ env, dataDir })
  context.onTestFinished(() => there.stop())
  const key = await newKey(here, 'leaving')
  const stream = await openStream(there, key)
  const workspace_id = await made(there, key)
  const exec = (command: string) => send(there, 'exec', { workspace_id, command }, key)
  const waiting = exec('touch /begun; sleep 1000')
  await expect.poll(async () => (await exec('test -e /begun')).body['exit_code']).toBe(0)
  await call(here, 'api_key_revoke', { key: key.id })
  expect(await stream.ended).toBe('ended')
  // Both processes hold the workspace: the one cancels the call, the other ends the command, whichever comes first.
  const { status, body } = await waiting
  expect([499, 137, 143]).toContain(status === 200 ? body['exit_code'] : status)
})
test('a key that expires while no server runs loses what it has at work when one starts', async (context) => {
  const server = await startRealServer({ env: unlimited })
  context.onTestFinished(() => server.stop())
  const key = await newKey(server, 'leaving', { expires_in: '1h' })
  const workspace_id = await made(server, key)
  const reach = await serveFrom(server, workspace_id, key)
  await expect.poll(reach).toBe(200)
  server.kill('SIGKILL')
  await server.ended
  expireInStore(server.dataDir, key)
  expect(await reach()).toBe(200)
  const next = await startServerHere({ dataDir: server.dataDir })
  context.onTestFinished(() => next.stop())
  await expect.poll(reach).toBe('nothing')
  await expect
    .poll(() => call(next, 'workspace_info', { workspace_id }))
    .toMatchObject({ state: 'stopped', network: { port_forwards: [] } })
})

test('a signed call ends when its session is revoked, and those of other sessions go on', async (context) => {
  const server = await start(context)
  const url = new URL('/', server.url).href
  const securityContext = 'aegis-system-operator'
  const clients = ['leaving', 'staying'].map((agentId) => createSealClient({ url, securityContext, agentId }))
  const { workspace_id } = await call(server, 'workspace_create', { name: 'shared' })
  const command = (mark: string) => `touch /${mark}; until [ -e /go ]; do sleep 0.1; done; echo ${mark}`
  const [leaving, staying] = clients.map((client, index) =>
    client.call('exec', { workspace_id, command: command(`m${index}`) }).then(
      (answer) => ({ answer }),
      (error: unknown) => ({ error: String(error) }),
    ),
  )
  const exec = (line: string) => call(server, 'exec', { workspace_id, command: line })
  await expect.poll(async () => (await exec('test -e /m0 && test -e /m1'))['exit_code']).toBe(0)
  type Session = { session_id: string; agent_id: string }
  const { sessions } = (await call(server, 'seal_session_list', {})) as { sessions: Session[] }
  const { session_id } = sessions.find(({ agent_id }) => agent_id === 'leaving')!
  await call(server, 'seal_session_revoke', { session_id })
  expect(await leaving).toMatchObject({ error: expect.stringContaining('session was revoked') })
  await exec('touch /go')
  expect(await staying).toMatchObject({ answer: { stdout: 'm1\n' } })
})

/** As if the time had passed. */
function expireInStore(dataDir: string, { id }: Key): void {
  const database = new DatabaseSync(join(dataDir, 'castellan.db'))
  const { changes } = database.prepare('UPDATE api_keys SET expires_at = ? WHERE id = ?').run(Date.now() - 1, id)
  database.close()
  expect(changes).toBe(1)
}

const made = async (server: ServerHere, key: Key) =>
  (await call(server, 'workspace_create', { name: 'shared' }, key))['workspace_id']

test('many keys with many streams lock out neither the owner nor each other', async (context) => {
  const server = await start(context)
  const keys: Key[] = []
  const streams: Promise<string>[] = []
  for (let number = 0; number < 10; number++) {
    const key = await newKey(server, `crowd-${number}`)
    keys.push(key)
    for (let count = 0; count < 100; count++) {
      const stream = await tryStream(server, key)
      if (stream !== undefined) streams.push(stream.ended)
    }
  }
  expect(streams.length).toBeGreaterThan(700)
  const late = await newKey(server, 'late')
  expect((await initialize(server)).status).toBe(200)
  expect((await initialize(server, late)).status).toBe(200)
  expect((await openStream(server)).headers['mcp-session-id']).toMatch(/.{20}/)
  for (const key of keys) await call(server, 'api_key_revoke', { key: key.id })
  expect(new Set(await Promise.all(streams))).toEqual(new Set(['ended']))
})
