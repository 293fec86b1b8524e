import { afterEach, beforeEach, expect, it } from 'vitest'
import type { SubjectToken } from '../../src/contract/upstream-tools.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { type OauthPeer, startOauthPeer } from '../support/oauth-peer.ts'

/** A token of the caller becomes one for the server, at a provider that is asked over HTTP (RFC 8693). */
let app: TestApp
let upstream: McpUpstream
let peer: OauthPeer
const valid = new Set<string>()
let isOpen = true
beforeEach(async () => {
  peer = await startOauthPeer()
  isOpen = true
  valid.clear()
  const protection = { ...peer, isValid: (token: string) => isOpen || valid.has(token) }
  upstream = await startMcpUpstream('streamable-http', protection)
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await peer[Symbol.asyncDispose]()
})

const exchange = (more: object = {}) => ({
  token_endpoint: `${peer.issuer}/token`,
  client_id: 'castellan',
  client_secret: 'a-secret-of-the-client',
  audience: 'up',
  ...more,
})
async function deployed(enterpriseManagedConfig: object | undefined): Promise<void> {
  const config = enterpriseManagedConfig === undefined ? {} : { enterpriseManagedConfig }
  await app.ask('create_mcp_server', { name: 'Up', serverUrl: upstream.url, ...config })
  await app.ask('deploy_mcp_server', { catalogId: 'Up', scope: 'org' })
  isOpen = false
}
async function call(subject?: SubjectToken, caller: ToolCaller = ownerCaller) {
  const tools = await (await app.app.ready).upstreamTools!()
  const { principal } = caller
  const tool = (await tools.list(principal.tenant)).find(({ name }) => name === 'up__echo')!
  const credential = { mode: 'enterprise_managed' as const }
  const target = { tenant: principal.tenant, toolId: tool.id, principal, credential, ...(subject && { subject }) }
  return await tools.call(target, { text: 'x' }, { signal: new AbortController().signal })
}

it('is asked for with the token of the caller, and each caller has their own', async () => {
  await deployed(exchange({ scopes: ['a', 'b'], resource: 'https://up.example' }))
  peer.subjects.set('ann-jwt', 'up-for-ann').set('bob-jwt', 'up-for-bob')
  valid.add('up-for-ann').add('up-for-bob')
  const bob = await app.keyCaller({ role: 'member' })
  const [ofAnn, ofBob] = await Promise.all([call({ token: 'ann-jwt' }), call({ token: 'bob-jwt' }, bob)])
  expect([ofAnn, ofBob]).toMatchObject([{ content: [{ text: 'x' }] }, { content: [{ text: 'x' }] }])
  const sent = new Set(upstream.requests.map(({ headers }) => headers['authorization']))
  expect(sent).toEqual(new Set([undefined, 'Bearer up-for-ann', 'Bearer up-for-bob']))
  expect(peer.tokenRequests).toContainEqual({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: 'ann-jwt',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    resource: 'https://up.example',
    audience: 'up',
    scope: 'a b',
    basic: 'castellan:a-secret-of-the-client',
  })
  // One exchange serves all calls of a connection.
  await call({ token: 'ann-jwt' })
  expect(peer.tokenRequests).toHaveLength(2)
  // A token that the server refuses is exchanged for anew, once.
  valid.delete('up-for-ann')
  peer.subjects.set('ann-jwt', 'up-for-ann-2')
  valid.add('up-for-ann-2')
  expect(await call({ token: 'ann-jwt' })).toMatchObject({ content: [{ text: 'x' }] })
  expect(peer.tokenRequests).toHaveLength(3)
})

it.each([
  ['raw', { injection: 'raw' }, 'authorization'],
  ['header', { injection: 'header', header_name: 'X-Access' }, 'x-access'],
] as const)('is sent as it is (%s)', async (_, injection, header) => {
  await deployed(exchange(injection))
  isOpen = true
  peer.subjects.set('jwt', 'as it is')
  await call({ token: 'jwt', type: 'urn:ietf:params:oauth:token-type:id_token' })
  expect(upstream.requests.at(-1)!.headers[header]).toBe('as it is')
  expect(peer.tokenRequests).toMatchObject([{ subject_token_type: 'urn:ietf:params:oauth:token-type:id_token' }])
})

it('says what is missing: a token of the caller, an exchange that works, or where to exchange', async () => {
  await deployed(exchange())
  await expect(call()).rejects.toMatchObject({
    code: 'ERR_CREDENTIAL_REQUIRED',
    message: expect.stringContaining('You came without one'),
  })
  await expect(call({ token: 'unknown' })).rejects.toMatchObject({
    code: 'ERR_UPSTREAM_UNAUTHORIZED',
    details: { oauth_error: 'invalid_grant' },
  })
  const { json } = await app.call('get_mcp_servers')
  expect(json).not.toContain('a-secret-of-the-client')
  await app.ask('create_mcp_server', { name: 'Plain', serverUrl: upstream.url })
  const wrong: [string, object][] = [
    ['enterpriseManagedConfig.token_endpoint', { token_endpoint: 'ftp://x' }],
    ['enterpriseManagedConfig.header_name', exchange({ injection: 'header' })],
    ['enterpriseManagedConfig.header_name', exchange({ header_name: 'X' })],
  ]
  for (const [field, enterpriseManagedConfig] of wrong) {
    const refusal = await app.refusal('edit_mcp_config', { id: 'Plain', enterpriseManagedConfig })
    expect([refusal.code, refusal.details['field']]).toEqual(['ERR_INVALID_INPUT', field])
  }
  const local = { name: 'L', command: 'x', enterpriseManagedConfig: exchange() }
  expect(await app.refusal('create_mcp_server', local)).toMatchObject({ details: { field: 'enterpriseManagedConfig' } })
  const inside = exchange({ token_endpoint: 'http://169.254.169.254/token' })
  expect(await app.refusal('edit_mcp_config', { id: 'Plain', enterpriseManagedConfig: inside })).toMatchObject({
    code: 'ERR_POLICY_VIOLATION',
  })
})

it('without a configuration of the server is refused', async () => {
  await deployed(undefined)
  await expect(call({ token: 'jwt' })).rejects.toMatchObject({ code: 'ERR_FEATURE_DISABLED' })
})
