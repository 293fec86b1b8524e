import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { systemClock } from '../../src/kernel/clock.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, movableClock, openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { answerProvider, CLIENT_ID, CLIENT_SECRET, startIdentityProvider } from '../support/identity-provider.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { type OauthPeer, startOauthPeer } from '../support/oauth-peer.ts'

/**
 * People sign in with a real provider, and use a server with tokens that a peer gives out in return for theirs (RFC 8693). The peer
 * asks the provider whose the token is.
 */
const ORIGIN = 'http://127.0.0.1:7433'
const clock = movableClock(systemClock.nowMs())
let app: TestApp
let upstream: McpUpstream
let peer: OauthPeer
let provider: Awaited<ReturnType<typeof startIdentityProvider>>
const valid = new Set<string>()
let isOpen = true
let issued = 0

const accounts = Object.fromEntries(
  ['ann', 'bob', 'cleo', 'dan', 'eve'].map((name) => [name, { email: `${name}@example.com`, email_verified: true }]),
)

async function ownerOf(token: string): Promise<string | undefined> {
  const response = await fetch(`${provider.issuer}/me`, { headers: { authorization: `Bearer ${token}` } })
  return response.ok ? ((await response.json()) as { sub: string }).sub : undefined
}

beforeAll(async () => {
  peer = await startOauthPeer()
  provider = await startIdentityProvider(accounts)
  provider.allow(`${ORIGIN}/auth/callback/company`)
  process.env['OIDC_SECRET_OF_EXCHANGE'] = CLIENT_SECRET
  peer.onSubject(async (token) => {
    const sub = await ownerOf(token)
    const made = sub && `up-for-${sub}-${++issued}`
    if (made !== undefined) valid.add(made)
    return made
  })
  upstream = await startMcpUpstream('streamable-http', { ...peer, isValid: (token) => isOpen || valid.has(token) })
  const company = {
    ...{ id: 'company', name: 'Company', issuer: provider.issuer, client_id: CLIENT_ID },
    ...{ client_secret: 'env:OIDC_SECRET_OF_EXCHANGE', scopes: ['offline_access'] },
    exchange_endpoints: [`${peer.issuer}/token`],
  }
  app = await openTestApp({
    clock,
    config: { 'web.allow_private_addresses': ['127.0.0.1'], oidc_providers: [company] as never },
  })
  for (const name of Object.keys(accounts)) await app.ask('user_create', { email: `${name}@example.com` })
  await register('Up')
})
beforeEach(() => {
  isOpen = false
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await peer[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
  delete process.env['OIDC_SECRET_OF_EXCHANGE']
})

const exchange = (more: object = {}) => ({
  token_endpoint: `${peer.issuer}/token`,
  client_id: 'castellan',
  client_secret: 'a-secret-of-the-client',
  audience: 'up',
  ...more,
})

async function register(name: string, more: object = {}): Promise<void> {
  isOpen = true
  const enterpriseManagedConfig = exchange(more)
  await app.ask('create_mcp_server', { name, serverUrl: upstream.url, enterpriseManagedConfig })
  await app.ask('deploy_mcp_server', { catalogId: name, scope: 'org' })
  const { id } = await app.ask<{ id: string }>('create_mcp_gateway', { name, scope: 'org' })
  const [toolId] = await toolIds(name)
  const credentialResolutionMode = 'enterprise_managed'
  await app.ask('bulk_assign_tools_to_mcp_gateways', {
    assignments: [{ mcpGatewayId: id, toolId, credentialResolutionMode }],
  })
}

async function toolIds(server: string): Promise<string[]> {
  const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', {
    mcpServerId: server,
  })
  return tools.filter(({ name }) => name.endsWith('echo')).map(({ id }) => id)
}

/** Through the pages of the provider, to a session of ours. */
async function signIn(login: string): Promise<ToolCaller & { session: string }> {
  const people = (await app.app.ready).people!
  const started = await (await people.accounts()).startProviderSignIn(
    ORIGIN,
    { provider: 'company', returnTo: '/account' },
    new Headers(),
  )
  const back = await answerProvider(started.url, login, (url) => url.href.startsWith(`${ORIGIN}/`))
  const cookie = started.cookies.map((one) => one.split(';')[0]).join('; ')
  const request = new Request(back, { headers: { cookie } })
  const { cookies } = await people.finishProviderSignIn(ORIGIN, { provider: 'company', request, address: '127.0.0.1' })
  const session = cookies.find((one) => one.includes('session_token='))!.split(';')[0]!
  const shown = { address: '127.0.0.1', isLoopback: true, resource: '' }
  const principal = await people.principals.ofCookie(session, shown, clock.nowMs())!
  return { ...callerOf(principal, { transport: 'http' }), session }
}

async function at(gateway: string, caller: ToolCaller): Promise<ToolCaller> {
  const directory = (await app.app.ready).gateways!
  const id = await directory.find(caller.principal, gateway.toLowerCase())
  return { ...caller, principal: { ...caller.principal, gateway: id! } }
}

const echo = async (caller: ToolCaller, gateway = 'Up') =>
  app.call(`${gateway.toLowerCase()}__echo`, { text: 'x' }, await at(gateway, caller))

const lastAuthorization = () => upstream.requests.at(-1)!.headers['authorization']

it('is asked for with the token of the person, and each person has their own', async () => {
  const [ann, bob] = [await signIn('ann'), await signIn('bob')]
  for (const [caller, name] of [
    [ann, 'ann'],
    [bob, 'bob'],
  ] as const) {
    expect(JSON.parse((await echo(caller)).json)).toMatchObject({ content: [{ text: 'x' }] })
    expect(lastAuthorization()).toMatch(new RegExp(`^Bearer up-for-${name}-`))
  }
  const asked = peer.tokenRequests.at(-1)!
  expect(asked).toMatchObject({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    audience: 'up',
    basic: 'castellan:a-secret-of-the-client',
  })
  expect(await ownerOf(asked['subject_token']!)).toBe('bob')
  // One exchange serves all calls of a connection, and a token that the server refuses is exchanged for anew, once.
  const before = peer.tokenRequests.length
  await echo(bob)
  expect(peer.tokenRequests).toHaveLength(before)
  valid.clear()
  expect((await echo(bob)).isError).toBe(false)
  expect(peer.tokenRequests).toHaveLength(before + 1)
})

it('is kept encrypted, is none of the secrets of the person, and goes with the session', async () => {
  const cleo = await signIn('cleo')
  expect((await echo(cleo)).isError).toBe(false)
  const subject = peer.tokenRequests.at(-1)!['subject_token']!
  const rows = () =>
    app.behindItsBack((db) =>
      db
        .prepare('SELECT * FROM secrets WHERE session_id IS NOT NULL AND owner LIKE ?')
        .all(`user:${cleo.principal.user}`),
    )
  expect(rows()).toHaveLength(1)
  expect(JSON.stringify(rows())).not.toContain(subject)
  const { id } = rows()[0] as { id: string }
  expect(await app.ask('secret_list', {}, cleo)).toMatchObject({ secrets: [] })
  const environment = [{ key: 'T', type: 'secret', value: `secret:${id}`, promptOnInstallation: false }]
  const admin = { ...cleo, principal: { ...ownerCaller.principal, kind: 'user' as const, user: cleo.principal.user! } }
  expect(await app.refusal('create_mcp_server', { name: 'Thief', command: 'x', environment }, admin)).toMatchObject({
    code: 'ERR_NOT_FOUND',
  })
  // The key changes, and the person notices nothing.
  await app.ask('secret_rotate')
  expect((await echo(cleo)).isError).toBe(false)

  const { sessions } = await app.ask<{ sessions: { id: string }[] }>('user_session_list', { user: 'cleo@example.com' })
  await app.ask('user_session_revoke', { user: 'cleo@example.com', session: sessions[0]!.id })
  expect(rows()).toEqual([])
  const { error } = JSON.parse((await echo(cleo)).json) as { error: { code: string; details: object } }
  expect(error).toMatchObject({
    code: 'ERR_CREDENTIAL_REQUIRED',
    details: { sign_in_url: 'http://127.0.0.1:7433/sign-in/provider/company' },
  })
  // The page at that address is the way back.
  expect((await echo(await signIn('cleo'))).isError).toBe(false)
  await app.ask('user_delete', { user: 'cleo@example.com' })
  expect(rows()).toEqual([])
})

it('is renewed at the provider by one caller for all, and an end that is final leads to the page', async () => {
  const dan = await signIn('dan')
  expect((await echo(dan)).isError).toBe(false)
  const before = peer.tokenRequests.at(-1)!['subject_token']
  clock.advance(3_600_000)
  expect((await Promise.all([1, 2, 3, 4].map(() => echo(dan)))).map(({ isError }) => isError)).not.toContain(true)
  const after = peer.tokenRequests.at(-1)!['subject_token']!
  expect(after).not.toBe(before)
  expect(await ownerOf(after)).toBe('dan')
  // A new provider knows none of the tokens of the old one.
  provider.allow(`${ORIGIN}/auth/callback/company`)
  clock.advance(3_600_000)
  expect(JSON.parse((await echo(dan)).json)).toMatchObject({
    error: { code: 'ERR_CREDENTIAL_REQUIRED', details: { sign_in_url: expect.stringContaining('/sign-in/provider/') } },
  })
})

it.each([
  ['Raw', { injection: 'raw' }, 'authorization'],
  ['Named', { injection: 'header', header_name: 'X-Access' }, 'x-access'],
] as const)('is sent as the server wants it (%s), also for an ID token', async (name, injection, header) => {
  await register(name, { ...injection, subject_token_type: 'id_token' })
  const eve = await signIn('eve')
  peer.onSubject(
    async (token) => `as it is ${JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()).sub}`,
  )
  expect((await echo(eve, name)).isError).toBe(false)
  expect(upstream.requests.at(-1)!.headers[header]).toBe('as it is eve')
  expect(peer.tokenRequests.at(-1)).toMatchObject({
    subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
  })
})

it('is for people who signed in with the provider alone', async () => {
  for (const caller of [ownerCaller, await app.keyCaller({ role: 'member' })]) {
    expect(JSON.parse((await echo(caller)).json)).toMatchObject({
      error: { code: 'ERR_CREDENTIAL_REQUIRED', message: expect.stringContaining('not a person who signed in') },
    })
  }
})

it('is assigned only where the operator lets tokens of a provider go', async () => {
  isOpen = true
  const elsewhere = exchange({ token_endpoint: 'https://login.example.net/token' })
  await app.ask('create_mcp_server', { name: 'Plain', serverUrl: upstream.url })
  await app.ask('deploy_mcp_server', { catalogId: 'Plain', scope: 'org' })
  const { id } = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Plain', scope: 'org' })
  const [toolId] = await toolIds('Plain')
  const assignments = [{ mcpGatewayId: id, toolId, credentialResolutionMode: 'enterprise_managed' }]
  const failed = async () =>
    (await app.ask<{ failed: { error: string }[] }>('bulk_assign_tools_to_mcp_gateways', { assignments })).failed
  expect(await failed()).toMatchObject([{ error: expect.stringContaining('no enterpriseManagedConfig') }])
  app.behindItsBack((db) =>
    db
      .prepare(
        `UPDATE mcp_catalog_items SET config = json_set(config, '$.enterpriseManagedConfig', json(?)) WHERE name = 'Plain'`,
      )
      .run(JSON.stringify({ ...elsewhere, client_secret: undefined })),
  )
  expect(await failed()).toMatchObject([{ error: expect.stringContaining('exchange_endpoints') }])
})

it('is configured as the rules of its fields say', async () => {
  isOpen = true
  await app.ask('create_mcp_server', { name: 'Fields', serverUrl: upstream.url })
  const wrong: [string, object][] = [
    ['enterpriseManagedConfig.token_endpoint', { token_endpoint: 'ftp://x' }],
    ['enterpriseManagedConfig.header_name', exchange({ injection: 'header' })],
    ['enterpriseManagedConfig.header_name', exchange({ header_name: 'X' })],
  ]
  for (const [field, enterpriseManagedConfig] of wrong) {
    const refusal = await app.refusal('edit_mcp_config', { id: 'Fields', enterpriseManagedConfig })
    expect([refusal.code, refusal.details['field']]).toEqual(['ERR_INVALID_INPUT', field])
  }
  const local = { name: 'L', command: 'x', enterpriseManagedConfig: exchange() }
  expect(await app.refusal('create_mcp_server', local)).toMatchObject({ details: { field: 'enterpriseManagedConfig' } })
  const inside = exchange({ token_endpoint: 'http://169.254.169.254/token' })
  expect(await app.refusal('edit_mcp_config', { id: 'Fields', enterpriseManagedConfig: inside })).toMatchObject({
    code: 'ERR_POLICY_VIOLATION',
  })
  const { json } = await app.call('get_mcp_servers')
  expect(json).not.toContain('a-secret-of-the-client')
})
