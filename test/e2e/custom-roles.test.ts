import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, inject, it, test } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { mcpHeaders } from '../support/http-transport-peer.ts'
import { castellanJson, newPerson, PASSWORD, postForm, type Row, signIn } from '../support/people.ts'
import { createDatabase } from '../support/postgres.ts'
import { newDataDir, startRealServer } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** People and programs with a custom role, in the real program: on the command line, in a browser's requests, at a gateway. */
type Server = Pick<ServerHere, 'url' | 'dataDir'>
const env = { CASTELLAN_REQUIRE_KEYS: 'true', CASTELLAN_RATE_LIMITS_ENABLED: 'false' }

const callAs = (server: Server, headers: Record<string, string>, tool: string, args: object = {}) =>
  fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(args),
  })

const initialize = (url: URL | string, headers: Record<string, string>) =>
  fetch(url, {
    method: 'POST',
    headers: { ...mcpHeaders, ...headers },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
    }),
  })

/** The stream of a new session; `ended` resolves when the server ends it, however it does. */
async function openStream(server: Server, caller: Record<string, string>) {
  const opened = await initialize(server.url, caller)
  await opened.text()
  expect(opened.status).toBe(200)
  const headers = { ...caller, 'mcp-session-id': opened.headers.get('mcp-session-id')! }
  const stream = await fetch(server.url, { headers: { ...headers, accept: 'text/event-stream' } })
  expect(stream.status).toBe(200)
  const over = (): 'ended' => 'ended'
  return { ended: stream.text().then(over, over) }
}

const newRole = (server: Server, name: string, ...permissions: readonly string[]) =>
  castellanJson(server, ['call', 'role_create', `name=${name}`, `permissions=${JSON.stringify(permissions)}`])

describe('on one server', () => {
  let server: ServerHere
  beforeAll(async () => {
    const dataDir = newDataDir()
    await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
    server = await startServerHere({ dataDir, env })
  })
  afterAll(async () => {
    await server.stop()
    rmSync(server.dataDir, { recursive: true, force: true })
  })
  const cli = (...args: string[]) => castellanJson(server, args)

  it('a person with a custom role can do exactly what the role grants', async () => {
    await newRole(server, 'clerk', 'task:read', 'task:create', 'agent:read')
    const cookie = await signIn(server, await newPerson(server, 'clerk@example.com', ['--role', 'clerk']))
    const statusOf = async (tool: string, args: object = {}) => (await callAs(server, { cookie }, tool, args)).status
    expect(await statusOf('task_create', { title: 'x', project: 'p' })).toBe(200)
    expect(await statusOf('task_list')).toBe(200)
    expect(await statusOf('list_agents')).toBe(200)
    for (const [tool, args] of [
      ['task_update', { task_id: 'P-1', status: 'in_progress' }],
      ['create_agent', { name: 'x' }],
      ['workspace_list', {}],
      ['user_list', {}],
      ['role_list', {}],
      ['user_create', { email: 'more@example.com', role: 'clerk' }],
      ['user_update', { user: 'clerk@example.com', role: 'admin' }],
      ['role_create', { name: 'more', permissions: ['task:update'] }],
      ['api_key_create', { name: 'more', role: 'clerk' }],
    ] as const) {
      expect([tool, await statusOf(tool, args)]).toEqual([tool, 403])
    }
    const users = (await cli('users', 'list'))['users'] as Row[]
    expect(users.find(({ email }) => email === 'clerk@example.com')).toMatchObject({ role: 'clerk', tier: 'user' })
  })

  it('a person who is invited to a custom role has it from the first sign-in', async () => {
    await newRole(server, 'guest', 'task:read')
    const { link } = await cli('invite', 'create', 'guest@example.com', '--role', 'guest')
    const url = new URL(new URL(String(link)).pathname, server.url)
    expect((await postForm(url, { password: PASSWORD, again: PASSWORD })).status).toBe(200)
    const cookie = await signIn(server, { email: 'guest@example.com', password: PASSWORD })
    expect((await callAs(server, { cookie }, 'task_list')).status).toBe(200)
    expect((await callAs(server, { cookie }, 'task_create', { title: 'x', project: 'p' })).status).toBe(403)
  })

  it('a program with a custom role uses its gateway with the rights of the role', async () => {
    await newRole(server, 'robot', 'task:read', 'mcpGateway:read')
    const { id: gateway } = await cli('call', 'create_mcp_gateway', 'name=Robots', 'scope=org')
    const assignments = ['task_list', 'task_create'].map((toolId) => ({ mcpGatewayId: gateway, toolId }))
    await cli('call', 'bulk_assign_tools_to_mcp_gateways', `assignments=${JSON.stringify(assignments)}`)
    const client = await cli('clients', 'create', 'robot', '--gateways', 'robots', '--role', 'robot')
    expect(client).toMatchObject({ role: 'robot', tier: 'user' })
    const response = await fetch(new URL('/auth/oauth2/token', server.url), {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: String(client['id']),
        client_secret: String(client['client_secret']),
      }),
    })
    const { access_token } = (await response.json()) as { access_token: string }
    const authorization = `Bearer ${access_token}`
    const url = new URL('/mcp/robots', server.url)
    const opened = await initialize(url, { authorization })
    await opened.text()
    const session = { 'mcp-session-id': opened.headers.get('mcp-session-id')! }
    const listed = await fetch(url, {
      method: 'POST',
      headers: { ...mcpHeaders, authorization, ...session },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
    })
    const text = await listed.text()
    expect(text).toContain('task_list')
    expect(text).not.toContain('task_create')
  })

  it('a wrong role is refused on the command line in its words, with what was probably meant', async () => {
    await newRole(server, 'auditor', 'task:read')
    for (const args of [
      ['users', 'create', 'no@example.com', '--role', 'auditr'],
      ['invite', 'create', 'no@example.com', '--role', 'auditr'],
      ['clients', 'create', 'no', '--gateways', 'x', '--role', 'auditr'],
      ['keys', 'create', 'no', '--role', 'auditr'],
    ]) {
      await expect(cli(...args)).rejects.toThrow(/--role: use one of .*role_list.*did you mean 'auditor'\?/)
    }
  })

  it('roles are made, shown and deleted on the command line', async () => {
    const made = await cli(
      'roles',
      'create',
      'typist',
      '--permissions',
      'task:*, agent:read',
      '--description',
      'Types.',
    )
    expect(made).toMatchObject({ permissions: ['agent:read', 'task:create', 'task:read', 'task:update'] })
    const run = (...args: string[]) =>
      runCastellanHere([...args, '--data-dir', server.dataDir], { home: server.dataDir })
    const { stdout } = await run('roles', 'list')
    expect(stdout).toMatch(/^admin +\d+ permissions/m)
    expect(stdout).toMatch(/^typist +agent:read, task:create, task:read, task:update +Types\./m)
    const bare = await run('roles', 'create', 'empty')
    expect([bare.code, bare.stderr]).toEqual([2, expect.stringContaining('--permissions is missing')])
    const wrong = await run('roles', 'create', 'empty', '--permissions', 'task:reed')
    expect(wrong.stderr).toMatch(/--permissions: .*did you mean task:read\?/)
    await cli('keys', 'create', 'typing', '--role', 'typist')
    const deleted = await run('roles', 'delete', 'typist')
    expect(deleted).toMatchObject({ code: 0, stdout: 'Deleted typist.\n', stderr: expect.stringContaining("'typing'") })
  })

  it('a role that people have is not deleted, and a key ends with its role', async () => {
    await newRole(server, 'brief', 'task:read')
    await newPerson(server, 'brief@example.com', ['--role', 'brief'])
    await expect(cli('call', 'role_delete', 'name=brief')).rejects.toThrow(/in use: 1 user; .*user_update/)
    await cli('users', 'update', 'brief@example.com', '--role', 'member')
    const { secret } = await cli('keys', 'create', 'brief', '--role', 'brief')
    const authorization = `Bearer ${secret}`
    const stream = await openStream(server, { authorization })
    expect((await callAs(server, { authorization }, 'task_list')).status).toBe(200)
    await cli('call', 'role_delete', 'name=brief')
    expect(await stream.ended).toBe('ended')
    expect((await callAs(server, { authorization }, 'task_list')).status).toBe(403)
  })
})

test('a change in one process on PostgreSQL ends what people and keys with the role have open in another', async (context) => {
  const shared = {
    CASTELLAN_RATE_LIMITS_ENABLED: 'false',
    CASTELLAN_DATABASE_URL: await createDatabase(inject('postgresUrl')),
  }
  const here = await startServerHere({ env: shared })
  context.onTestFinished(() => here.stop())
  const there = await startRealServer({ env: shared, dataDir: here.dataDir })
  context.onTestFinished(() => there.stop())
  const call = async (tool: string, args: object): Promise<Row> => {
    const response = await callAs(here, {}, tool, args)
    const body = (await response.json()) as Row
    if (!response.ok) throw new Error(`${tool}: ${JSON.stringify(body)}`)
    return body
  }
  await call('role_create', { name: 'clerk', permissions: ['task:read', 'task:create'] })
  const { link } = await call('user_create', { email: 'ann@example.com', role: 'clerk' })
  await postForm(new URL(new URL(String(link)).pathname, here.url), { password: PASSWORD, again: PASSWORD })
  const cookie = await signIn(there, { email: 'ann@example.com', password: PASSWORD })
  const stream = await openStream(there, { cookie })
  expect((await callAs(there, { cookie }, 'task_list')).status).toBe(200)
  expect((await callAs(here, {}, 'role_delete', { name: 'clerk' })).status).toBe(409)

  await call('role_create', { name: 'visitor', permissions: ['task:create'] })
  await call('user_update', { user: 'ann@example.com', role: 'visitor' })
  expect(await stream.ended).toBe('ended')
  await expect.poll(async () => (await callAs(there, { cookie }, 'task_list')).status).toBe(403)

  const { secret } = await call('api_key_create', { name: 'clerk', role: 'clerk' })
  const authorization = `Bearer ${secret}`
  const open = await openStream(there, { authorization })
  await call('role_delete', { name: 'clerk' })
  expect(await open.ended).toBe('ended')
  await expect.poll(async () => (await callAs(there, { authorization }, 'task_list')).status).toBe(403)
})
