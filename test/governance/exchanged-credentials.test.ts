import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { ownerCaller, type TestApp } from '../support/app.ts'
import { type ExchangeStage, openExchangeStage } from '../support/exchange-stage.ts'
import type { McpUpstream } from '../support/mcp-upstream.ts'
import type { OauthPeer } from '../support/oauth-peer.ts'

let stage: ExchangeStage
let app: TestApp
let upstream: McpUpstream
let peer: OauthPeer
beforeAll(async () => {
  stage = await openExchangeStage(['ann', 'bob', 'cleo', 'dan', 'eve'])
  app = stage.app()
  upstream = stage.upstream
  peer = stage.peer
})
beforeEach(() => stage.setOpen(false))
afterAll(() => stage[Symbol.asyncDispose]())

const echo: ExchangeStage['echo'] = (...args) => stage.echo(...args)
const signIn = (login: string) => stage.signIn(login)
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
  expect(await stage.ownerOf(asked['subject_token']!)).toBe('bob')
  // One exchange serves all calls of a connection, and a token that the server refuses is exchanged for anew, once.
  const before = peer.tokenRequests.length
  await echo(bob)
  expect(peer.tokenRequests).toHaveLength(before)
  stage.valid.clear()
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
  stage.clock.advance(3_600_000)
  expect((await Promise.all([1, 2, 3, 4].map(() => echo(dan)))).map(({ isError }) => isError)).not.toContain(true)
  const after = peer.tokenRequests.at(-1)!['subject_token']!
  expect(after).not.toBe(before)
  expect(await stage.ownerOf(after)).toBe('dan')
  // A new provider knows none of the tokens of the old one.
  stage.replaceProvider()
  stage.clock.advance(3_600_000)
  expect(JSON.parse((await echo(dan)).json)).toMatchObject({
    error: { code: 'ERR_CREDENTIAL_REQUIRED', details: { sign_in_url: expect.stringContaining('/sign-in/provider/') } },
  })
})

it.each([
  ['Raw', { injection: 'raw' }, 'authorization'],
  ['Named', { injection: 'header', header_name: 'X-Access' }, 'x-access'],
] as const)('is sent as the server wants it (%s), also for an ID token', async (name, injection, header) => {
  await stage.register(name, { ...injection, subject_token_type: 'id_token' })
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
      error: {
        code: 'ERR_CREDENTIAL_REQUIRED',
        message: expect.stringContaining('Only a person who signed in has such a token'),
      },
    })
  }
})

it('is assigned only where the operator lets tokens of a provider go', async () => {
  stage.setOpen(true)
  const elsewhere = stage.exchange({ token_endpoint: 'https://login.example.net/token' })
  await app.ask('create_mcp_server', { name: 'Plain', serverUrl: upstream.url })
  await app.ask('deploy_mcp_server', { catalogId: 'Plain', scope: 'org' })
  const { id } = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Plain', scope: 'org' })
  const [toolId] = await stage.toolIds('Plain')
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
  stage.setOpen(true)
  await app.ask('create_mcp_server', { name: 'Fields', serverUrl: upstream.url })
  const wrong: [string, object][] = [
    ['enterpriseManagedConfig.token_endpoint', { token_endpoint: 'ftp://x' }],
    ['enterpriseManagedConfig.header_name', stage.exchange({ injection: 'header' })],
    ['enterpriseManagedConfig.header_name', stage.exchange({ header_name: 'X' })],
  ]
  for (const [field, enterpriseManagedConfig] of wrong) {
    const refusal = await app.refusal('edit_mcp_config', { id: 'Fields', enterpriseManagedConfig })
    expect([refusal.code, refusal.details['field']]).toEqual(['ERR_INVALID_INPUT', field])
  }
  const local = { name: 'L', command: 'x', enterpriseManagedConfig: stage.exchange() }
  expect(await app.refusal('create_mcp_server', local)).toMatchObject({ details: { field: 'enterpriseManagedConfig' } })
  const inside = stage.exchange({ token_endpoint: 'http://169.254.169.254/token' })
  expect(await app.refusal('edit_mcp_config', { id: 'Fields', enterpriseManagedConfig: inside })).toMatchObject({
    code: 'ERR_POLICY_VIOLATION',
  })
  const { json } = await app.call('get_mcp_servers')
  expect(json).not.toContain('a-secret-of-the-client')
})
