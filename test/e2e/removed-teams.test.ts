import { expect, inject, type TestContext, test } from 'vitest'
import { mcpHeaders } from '../support/http-transport-peer.ts'
import { PASSWORD, postForm, type Row, signIn } from '../support/people.ts'
import { createDatabase } from '../support/postgres.ts'
import { startRealServer } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What the members of a team have open at its gateway, once they lose the team, in the real program. */
const env = { CASTELLAN_RATE_LIMITS_ENABLED: 'false' }

async function call<T = Row>(server: ServerHere, tool: string, args: object): Promise<T> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  const body = (await response.json()) as T
  if (!response.ok) throw new Error(`${tool}: ${JSON.stringify(body)}`)
  return body
}

/** One server, or two on one PostgreSQL: the changes are made here, and the members are there. */
async function start({ onTestFinished }: TestContext, processes: 'one process' | 'another process') {
  if (processes === 'one process') {
    const server = await startServerHere({ env })
    onTestFinished(() => server.stop())
    return { here: server, there: server }
  }
  const shared = { ...env, CASTELLAN_DATABASE_URL: await createDatabase(inject('postgresUrl')) }
  const here = await startServerHere({ env: shared })
  onTestFinished(() => here.stop())
  const there = await startRealServer({ env: shared, dataDir: here.dataDir })
  onTestFinished(() => there.stop())
  return { here, there }
}

async function newMember(here: ServerHere, there: ServerHere, email: string, team: string): Promise<string> {
  const { link } = await call(here, 'user_create', { email, role: 'member', teams: [team] })
  const accepted = await postForm(new URL(new URL(String(link)).pathname, here.url), {
    password: PASSWORD,
    again: PASSWORD,
  })
  expect(accepted.status).toBe(200)
  return await signIn(there, { email, password: PASSWORD })
}

const post = (url: URL, headers: Record<string, string>, message: object) =>
  fetch(url, {
    method: 'POST',
    headers: { ...mcpHeaders, ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
  })

/** A session at the gateway with its stream; `ended` resolves when the server ends the stream, however it does. */
async function openStream(url: URL, cookie: string) {
  const clientInfo = { name: 'test', version: '1' }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
  const opened = await post(url, { cookie }, { method: 'initialize', params })
  await opened.text()
  expect(opened.status).toBe(200)
  const headers = { cookie, 'mcp-session-id': opened.headers.get('mcp-session-id')! }
  const stream = await fetch(url, { headers: { ...headers, accept: 'text/event-stream' } })
  expect(stream.status).toBe(200)
  const over = (): 'ended' => 'ended'
  const ping = async () => {
    const response = await post(url, headers, { method: 'ping' })
    await response.text()
    return response.status
  }
  return { ended: stream.text().then(over, over), ping }
}

const ends = {
  'is deleted': (server: ServerHere) => call(server, 'user_team_delete', { team: 'owls' }),
  'loses a member': (server: ServerHere) =>
    call(server, 'user_team_update', { team: 'owls', remove: ['ann@example.com'] }),
  'has the gateway no more': (server: ServerHere) =>
    call(server, 'edit_mcp_gateway', { id: 'Nest', scope: 'team', teams: ['larks'] }),
  'has the agent no more': async (server: ServerHere) => {
    const { id } = await call(server, 'get_agent', { name: 'Nest' })
    await call(server, 'edit_agent', { id, scope: 'team', teams: ['larks'] })
  },
} as const

const cases = [
  ['is deleted', 'one process'],
  ['loses a member', 'one process'],
  ['has the gateway no more', 'one process'],
  ['is deleted', 'another process'],
  ['loses a member', 'another process'],
  ['has the gateway no more', 'another process'],
  ['has the agent no more', 'one process'],
  ['has the agent no more', 'another process'],
] as const

for (const [change, processes] of cases) {
  test(`when a team ${change}, what a member has open at its gateway in ${processes} ends, and nothing else`, async (context) => {
    const { here, there } = await start(context, processes)
    for (const name of ['owls', 'larks']) await call(here, 'user_team_create', { name })
    const make = change === 'has the agent no more' ? 'create_agent' : 'create_mcp_gateway'
    await call(here, make, { name: 'Nest', scope: 'team', teams: ['owls', 'larks'] })
    const ann = await newMember(here, there, 'ann@example.com', 'owls')
    const bob = await newMember(here, there, 'bob@example.com', 'larks')
    const url = new URL('/mcp/nest', there.url)
    const [lost, retained] = [await openStream(url, ann), await openStream(url, bob)]
    expect([await lost.ping(), await retained.ping()]).toEqual([200, 200])
    await ends[change](here)
    expect(await lost.ended).toBe('ended')
    await expect.poll(lost.ping).toBe(404)
    expect(await retained.ping()).toBe(200)
  })
}
