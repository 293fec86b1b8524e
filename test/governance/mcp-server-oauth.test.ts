import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { filesBelow } from '../support/files-below.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { type OauthPeer, startOauthPeer } from '../support/oauth-peer.ts'

/** A real MCP server that wants a token, an authorisation server that gives it out, and a person who is a script. */
type Link = { url: string; expires_at: string }
type Deployed = { id: string; status: string; needsAuthorization: boolean; error: string | null; link?: Link }
let app: TestApp
let upstream: McpUpstream
let peer: OauthPeer
beforeEach(async () => {
  peer = await startOauthPeer()
  upstream = await startMcpUpstream('streamable-http', peer)
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await peer[Symbol.asyncDispose]()
})

const create = (more: object = {}) => app.ask('create_mcp_server', { name: 'Up', serverUrl: upstream.url, ...more })
const deploy = (more: object = {}, caller?: ToolCaller) =>
  app.ask<Deployed>('deploy_mcp_server', { catalogId: 'Up', ...more }, caller)
const deployments = async () => (await app.ask<{ deployments: Deployed[] }>('list_mcp_server_deployments')).deployments
const settled = () =>
  expect.poll(async () => (await deployments())[0]).toMatchObject({ status: 'success', error: null })
async function echo(text: string, caller: ToolCaller = ownerCaller): Promise<string> {
  const { json, isError, content } = (await app.call('up__echo', { text }, caller)) as Awaited<
    ReturnType<TestApp['call']>
  > & { content?: { text: string }[] }
  return isError ? (JSON.parse(json) as { error: { code: string } }).error.code : (content?.[0]?.text ?? json)
}

/** What a browser does: the page of the link, the authorisation server, and back; with the cookie of the page unless told otherwise. */
async function follow(
  { url }: Link,
  keepsCookies = true,
): Promise<Readonly<{ status: number; text: string; back: string }>> {
  const page = await fetch(url)
  const html = await page.text()
  const next = /href="(http[^"]+)" rel="noreferrer"/.exec(html)?.[1]?.replaceAll('&amp;', '&')
  if (next === undefined) return { status: page.status, text: html, back: '' }
  const cookie = page.headers.getSetCookie()[0]!.split(';')[0]!
  const back = (await fetch(next, { redirect: 'manual' })).headers.get('location')!
  const answer = await fetch(back, { headers: keepsCookies ? { cookie } : {} })
  return { status: answer.status, text: await answer.text(), back: `${back}\n${cookie}` }
}

it.each(['streamable-http', 'sse'] as const)(
  'is found, registered with, allowed by a person, and used (%s)',
  async (kind) => {
    await using other = await startMcpUpstream(kind, peer)
    await create({ serverUrl: other.url })
    const deployed = await deploy()
    expect(deployed).toMatchObject({
      status: 'pending',
      needsAuthorization: true,
      error: expect.stringContaining('ERR_UPSTREAM_UNAUTHORIZED'),
      link: { url: expect.stringContaining('/mcp-authorize/') },
    })
    const { status, text } = await follow(deployed.link!)
    expect([status, text]).toEqual([200, expect.stringContaining('Up may now be used')])
    await settled()
    expect(await echo('hello')).toContain('hello')
    expect(peer.registrations).toMatchObject([
      { client_name: 'Castellan: Up', application_type: 'native', scope: 'tools' },
    ])
    expect(peer.tokenRequests).toMatchObject([
      { grant_type: 'authorization_code', client_id: 'client-1', resource: other.url },
    ])
    expect(await deployments()).toMatchObject([{ needsAuthorization: false }])
  },
)

it('is renewed once for all callers when the server refuses the token, and their requests are repeated', async () => {
  await create()
  await follow((await deploy()).link!)
  await settled()
  peer.expire()
  const before = peer.tokenRequests.length
  const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => echo(`n${index}`)))
  expect(answers.map((text, index) => text.includes(`n${index}`))).toEqual(Array(8).fill(true))
  expect(peer.tokenRequests.slice(before)).toMatchObject([{ grant_type: 'refresh_token', client_id: 'client-1' }])
  // What was renewed is kept: a new process goes on with it.
  const { dataDir } = app
  await app.stop()
  app = await openTestApp({ dataDir, config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
  peer.expire()
  expect(await echo('later')).toContain('later')
})

it('is renewed before it ends', async () => {
  await using short = await startOauthPeer(10)
  await using other = await startMcpUpstream('streamable-http', short)
  await create({ serverUrl: other.url })
  await follow((await deploy()).link!)
  await settled()
  const before = other.requests.length
  expect(await echo('x')).toContain('x')
  expect(short.tokenRequests.filter(({ grant_type }) => grant_type === 'refresh_token').length).toBeGreaterThan(0)
  expect(other.requests.length).toBeGreaterThan(before)
})

it('says that it has ended wherever the deployment is shown, until a person signs in again', async () => {
  await create()
  const { id, link } = await deploy()
  await follow(link!)
  await settled()
  peer.expire('all')
  expect(await echo('x')).toBe('ERR_UPSTREAM_UNAUTHORIZED')
  const problem = {
    needsAuthorization: true,
    error: expect.stringContaining('(invalid_grant). Call authorize_mcp_server'),
  }
  expect(await deployments()).toMatchObject([{ status: 'error', ...problem }])
  expect(await app.ask('get_mcp_servers')).toMatchObject({ items: [{ deployments: [problem] }] })
  const inHttp = { ...ownerCaller, transport: 'http' as const, origin: 'https://castellan.example' }
  expect(await app.ask('list_mcp_server_deployments', {}, inHttp)).toMatchObject({
    deployments: [{ authorizeUrl: `https://castellan.example/mcp-servers/${id}/authorize` }],
  })
  const again = await app.ask<{ link: Link; authorizationServer: string }>('authorize_mcp_server', { serverId: id })
  expect(again.authorizationServer).toBe(peer.issuer)
  await follow(again.link)
  await settled()
  expect(await echo('back')).toContain('back')
  // The same client is asked for again.
  expect(peer.registrations).toHaveLength(1)
})

it('that cannot be renewed for now is tried again with the next call', async () => {
  await create()
  await follow((await deploy()).link!)
  await settled()
  peer.expire()
  peer.failWith(503)
  expect(await echo('x')).toBe('ERR_UPSTREAM_UNAUTHORIZED')
  expect(await deployments()).toMatchObject([{ status: 'error', needsAuthorization: true }])
  peer.failWith(undefined)
  await expect.poll(() => echo('again')).toContain('again')
  expect(await deployments()).toMatchObject([{ status: 'success', error: null }])
})

it('counts once, in the browser that opened the link, and for the caller that asked', async () => {
  await create({ scope: 'org' })
  const { id, link } = await deploy()
  // A person who was sent straight to the authorisation server gives nothing away.
  expect((await follow(link!, false)).status).toBe(404)
  expect(await deployments()).toMatchObject([{ needsAuthorization: true }])
  const { status, back } = await follow(link!)
  expect(status).toBe(200)
  await settled()
  const [again, cookie] = back.split('\n') as [string, string]
  expect((await fetch(again, { headers: { cookie } })).status).toBe(404)
  expect((await fetch(link!.url)).status).toBe(404)
  const editor = await app.keyCaller({ role: 'editor' })
  expect((await app.refusal('authorize_mcp_server', { serverId: id }, editor)).code).toBe('ERR_NOT_FOUND')
  const admin = await app.keyCaller({ role: 'admin' })
  expect((await app.refusal('authorize_mcp_server', { serverId: id }, admin)).code).toBe('ERR_PERMISSION_DENIED')
  const { link: third } = await app.ask<{ link: Link }>('authorize_mcp_server', { serverId: id })
  const state = third.url.split('/').at(-1)!
  expect((await app.refusal('finish_mcp_authorization', { state, code: 'x' }, admin)).code).toBe('ERR_NOT_FOUND')
  // A refusal of the person uses it up as well, and takes nothing away.
  expect(await app.refusal('finish_mcp_authorization', { state, error: 'access_denied' })).toMatchObject({
    code: 'ERR_UPSTREAM_UNAUTHORIZED',
    details: { oauth_error: 'access_denied' },
  })
  expect((await app.refusal('finish_mcp_authorization', { state, code: 'x' })).code).toBe('ERR_NOT_FOUND')
  expect(await echo('still')).toContain('still')
})

it('is for the address that it was given for, and stays encrypted', async () => {
  await create()
  const { id, link } = await deploy()
  await follow(link!)
  await settled()
  await using thief = await startMcpUpstream('streamable-http', peer)
  await app.ask('edit_mcp_config', { id: 'Up', serverUrl: thief.url })
  await deploy()
  expect(thief.requests.map(({ headers }) => headers['authorization']).filter((one) => one !== undefined)).toEqual([])
  await app.ask('edit_mcp_config', { id: 'Up', serverUrl: upstream.url })
  expect(await deploy()).toMatchObject({ status: 'success' })
  const texts = [await app.call('list_mcp_server_deployments'), await app.call('secret_list')].map(({ json }) => json)
  const token = upstream.requests.at(-1)!.headers['authorization']!.replace('Bearer ', '')
  await app.ask('delete_mcp_server_deployment', { serverId: id })
  expect(await app.ask('secret_list')).toMatchObject({ secrets: [] })
  await app.stop()
  for (const text of [...texts, ...filesBelow(app.dataDir).map((path) => readFileSync(path, 'latin1'))]) {
    expect([text.includes(token), text.includes('rt-')]).toEqual([false, false])
  }
})

it('uses the client that is configured, and registers none then', async () => {
  const oauthConfig = {
    client_id: 'configured',
    client_secret: 'shh-shh-shh-1234',
    scopes: ['a', 'b'],
    authorization_endpoint: `${peer.issuer}/authorize`,
    token_endpoint: `${peer.issuer}/token`,
  }
  await create({ oauthConfig })
  const { link } = await deploy()
  await follow(link!)
  await settled()
  expect(peer.registrations).toEqual([])
  expect(peer.tokenRequests).toMatchObject([{ basic: 'configured:shh-shh-shh-1234' }])
})
