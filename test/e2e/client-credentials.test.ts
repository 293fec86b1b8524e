import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { castellanJson, newPerson, type Row, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Programs that act for themselves: tokens by client credentials, for the gateways in their list and nothing else. */
let server: ServerHere
type Client = Readonly<{ id: string; client_secret: string }>

beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  for (const name of ['reports', 'billing'])
    await castellanJson({ dataDir }, ['call', 'create_mcp_gateway', `name=${name}`])
  server = await startServerHere({ dataDir, env: { CASTELLAN_REQUIRE_KEYS: 'true' } })
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

const at = (path: string): string => new URL(path, server.url).href
const newClient = async (name: string, gateways: string): Promise<Client> =>
  (await castellanJson(server, ['clients', 'create', name, '--gateways', gateways])) as unknown as Client
const resource = (gateway: string): string => at(`/mcp/${gateway}`)

const askToken = (client: Client, fields: Record<string, string> = {}, headers: Record<string, string> = {}) =>
  fetch(at('/auth/oauth2/token'), {
    method: 'POST',
    headers,
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      ...(headers['authorization'] === undefined ? { client_id: client.id, client_secret: client.client_secret } : {}),
      ...fields,
    }),
  })
const tokenOf = async (response: Response) => ((await response.json()) as { access_token: string }).access_token
const initialize = {
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
}
const reach = async (token: string, path: string, message: object = { method: 'ping' }): Promise<number> => {
  const response = await fetch(at(path), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
  })
  return response.status
}

describe('a program with client credentials', () => {
  it('gets a token for a gateway in its list, as a form or by Basic, and is not known elsewhere', async () => {
    const client = await newClient('nightly', 'reports,billing')
    const token = await tokenOf(await askToken(client, { resource: resource('reports') }))
    expect(token).toMatch(/^csa_/)
    for (const path of ['/mcp', '/v1/tools/server_ping']) {
      expect([path, await reach(token, path)]).toEqual([path, 401])
    }
    const authorization = `Basic ${Buffer.from(`${client.id}:${client.client_secret}`).toString('base64')}`
    const basic = await askToken(client, { resource: resource('billing') }, { authorization })
    expect(await tokenOf(basic)).toMatch(/^csa_/)
    const about = await fetch(at('/.well-known/oauth-authorization-server/auth'))
    expect(((await about.json()) as Row)['grant_types_supported']).toContain('client_credentials')
  })

  it('is refused for any other address, and with a wrong secret', async () => {
    const client = await newClient('wrong', 'reports,billing')
    const elsewhere = [resource('other'), at('/mcp'), 'https://elsewhere.example/mcp/reports', resource('reports/../x')]
    for (const target of elsewhere) {
      const refused = await askToken(client, { resource: target })
      expect([target, refused.status, await refused.json()]).toMatchObject([target, 400, { error: 'invalid_target' }])
    }
    expect((await askToken(client)).status).toBe(400)
    const wrong = await askToken({ ...client, client_secret: 'csc_wrong' }, { resource: resource('reports') })
    expect([wrong.status, await wrong.json()]).toMatchObject([401, { error: 'invalid_client' }])
    const nobody = await askToken({ id: 'client_nobody', client_secret: 'x' }, { resource: resource('reports') })
    expect(nobody.status).toBe(401)
  })

  it('may leave the resource out if its list has one gateway', async () => {
    expect(await tokenOf(await askToken(await newClient('single', 'reports')))).toMatch(/^csa_/)
  })

  it('has nothing any more when it is removed', async () => {
    const client = await newClient('gone', 'reports')
    expect((await askToken(client)).status).toBe(200)
    await castellanJson(server, ['clients', 'delete', 'gone'])
    expect((await askToken(client)).status).toBe(401)
  })

  it('cannot ask a person for access', async () => {
    const client = await newClient('browser', 'reports')
    const query = new URLSearchParams({ response_type: 'code', client_id: client.id, redirect_uri: at('/account') })
    const asked = await fetch(at(`/auth/oauth2/authorize?${query}`), { redirect: 'manual' })
    expect(asked.headers.get('location') ?? '').not.toContain('sign-in')
  })
})

describe('a gateway', () => {
  it('serves the program whose list has it, and no other, until the client is removed', async () => {
    for (const name of ['Night reports', 'Night bills'])
      await castellanJson(server, ['call', 'create_mcp_gateway', `name=${name}`])
    const client = await newClient('worker', 'night-reports')
    const token = await tokenOf(await askToken(client))
    expect(await reach(token, '/mcp/night-reports', initialize)).toBe(200)
    expect(await reach(token, '/mcp/night-bills', initialize)).toBe(401)
    expect(await reach(token, '/mcp', initialize)).toBe(401)
    await castellanJson(server, ['clients', 'delete', 'worker'])
    expect(await reach(token, '/mcp/night-reports', initialize)).toBe(401)
  })
})

describe('a client', () => {
  it('is made by an administrator, with at least one gateway, and shows its secret once', async () => {
    await expect(castellanJson(server, ['clients', 'create', 'empty'])).rejects.toThrow(/gateways/)
    const cookie = await signIn(server, await newPerson(server, 'editor@example.com', ['--role', 'editor']))
    const made = await fetch(at('/v1/tools/oauth_client_create'), {
      method: 'POST',
      headers: { cookie, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'mine', gateways: ['reports'] }),
    })
    expect(made.status).toBe(403)
    const { clients } = await castellanJson(server, ['clients', 'list'])
    expect(clients).toContainEqual(expect.objectContaining({ name: 'single', gateways: ['reports'] }))
    expect(JSON.stringify(clients)).not.toContain('secret')
  })
})
