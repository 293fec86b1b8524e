import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { type OauthPerson, openOauthPerson } from '../support/oauth-person.ts'
import { castellanJson, newPerson, type Row } from '../support/people.ts'
import { newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'
import { makeTlsPair } from '../support/tls-files.ts'

/** Clients that are described by a document at their own address: a real web site, the real SDK, a real browser. */
let server: RealServer
let browser: Awaited<ReturnType<typeof openChromium>>
let person: OauthPerson
let site: Server
let home: string
const documents: Record<string, (address: string) => unknown> = {}
let fetched: string[] = []

const siteUrl = (path: string): string => `https://localhost:${(site.address() as AddressInfo).port}${path}`

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'castellan-site-'))
  const pair = makeTlsPair(home, 'site')
  site = createServer({ cert: pair.ca, key: readFileSync(pair.key) }, (req, res) => {
    fetched.push(req.url!)
    const document = documents[req.url!]
    if (document === undefined) res.writeHead(302, { location: siteUrl('/client') }).end()
    else res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document(siteUrl(req.url!))))
  })
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  const env = {
    CASTELLAN_REQUIRE_KEYS: 'true',
    CASTELLAN_WEB_ALLOW_PRIVATE_ADDRESSES: '127.0.0.1',
    NODE_EXTRA_CA_CERTS: pair.cert,
  }
  server = await startRealServer({ dataDir, env })
  browser = await openChromium()
  person = await openOauthPerson(browser.context, await newPerson(server, 'ada@example.com'))
  const described = (address: string) => ({
    client_id: address,
    client_name: 'A described <b>program</b>',
    redirect_uris: [person.redirectUrl, 'cursor://anysphere.cursor-mcp/oauth/callback'],
    token_endpoint_auth_method: 'none',
  })
  documents['/client'] = described
  documents['/other'] = (address) => ({ ...described(address), client_id: siteUrl('/client') })
  documents['/secret'] = (address) => ({ ...described(address), client_secret: 'x' })
  documents['/signed'] = (address) => ({ ...described(address), token_endpoint_auth_method: 'private_key_jwt' })
  documents['/large'] = (address) => ({ ...described(address), text: 'x'.repeat(100_000) })
})
afterAll(async () => {
  await person[Symbol.asyncDispose]()
  await browser[Symbol.asyncDispose]()
  await server.stop()
  site.close()
  site.closeAllConnections()
  rmSync(home, { recursive: true, force: true })
  rmSync(server.dataDir, { recursive: true, force: true })
})

const authorizeUrl = (clientId: string): URL => {
  const query = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: person.redirectUrl,
    state: 's',
    code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    code_challenge_method: 'S256',
  }
  return new URL(`/auth/oauth2/authorize?${new URLSearchParams(query)}`, server.url)
}
const asked = (clientId: string) => fetch(authorizeUrl(clientId), { redirect: 'manual' })

describe('a client with a document at its address', () => {
  it('is told that it may use it, and signs in without registering', async () => {
    const about = await fetch(new URL('/.well-known/oauth-authorization-server/auth', server.url))
    expect(await about.json()).toMatchObject({ client_id_metadata_document_supported: true })
    const saved: { information?: unknown; tokens?: { access_token: string }; verifier?: string; opened?: URL } = {}
    const provider = {
      redirectUrl: person.redirectUrl,
      clientMetadataUrl: siteUrl('/client'),
      clientMetadata: { redirect_uris: [person.redirectUrl], client_name: 'not this one' },
      clientInformation: () => saved.information,
      saveClientInformation: (information: unknown) => void Object.assign(saved, { information }),
      tokens: () => saved.tokens,
      saveTokens: (tokens: { access_token: string }) => void Object.assign(saved, { tokens }),
      redirectToAuthorization: (opened: URL) => void Object.assign(saved, { opened }),
      saveCodeVerifier: (verifier: string) => void Object.assign(saved, { verifier }),
      codeVerifier: () => saved.verifier!,
    } as never
    const first = new StreamableHTTPClientTransport(new URL(server.url), { authProvider: provider })
    await expect(new Client({ name: 'a', version: '1' }).connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
    expect(saved.opened!.searchParams.get('client_id')).toBe(siteUrl('/client'))
    await first.finishAuth(await person.answer(saved.opened!))
    const client = new Client({ name: 'a', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { authProvider: provider }))
    const made = await client.callTool({ name: 'task_create', arguments: { title: 'x', project: 'p' } })
    expect(made.structuredContent).toMatchObject({ created_by: 'ada@example.com' })
    await client.close()
    const { sessions } = await castellanJson(server, ['users', 'sessions', 'ada@example.com'])
    const clients = (sessions as Row[]).filter(({ kind }) => kind === 'client')
    expect(clients.map(({ name }) => name)).toEqual(['A described <b>program</b>'])
    expect(fetched.filter((path) => path === '/client')).toHaveLength(1)
  })

  it('is named to the person with the host that describes it', async () => {
    const page = await browser.context.newPage()
    await page.goto(authorizeUrl(siteUrl('/client')).href.replace('state=s', 'state=t&prompt=consent'))
    const text = await page.textContent('main')
    expect(text).toContain('A described <b>program</b>')
    expect(text).toContain(`It is described by ${new URL(siteUrl('/')).host}.`)
    await page.close()
  })
})

describe('a document', () => {
  it.each([
    ['of another address', '/other'],
    ['with a secret', '/secret'],
    ['of a client that signs', '/signed'],
    ['that is too large', '/large'],
    ['that is elsewhere', '/redirected'],
  ])('%s is refused', async (_what, path) => {
    const response = await asked(siteUrl(path))
    const answer = `${response.headers.get('location')} ${await response.text()}`
    expect(answer).toContain('invalid_client')
    expect(answer).not.toContain('sign-in')
  })

  it('is fetched only from the open internet, by https, and at an address that names it alone', async () => {
    const closed = await startRealServer({ env: { NODE_EXTRA_CA_CERTS: join(home, 'site.pem') } })
    await castellanJson(closed, ['users', 'create', 'first@example.com', '--admin'])
    fetched = []
    const there = new URL(
      authorizeUrl(siteUrl('/client')).href.replace(new URL(server.url).host, new URL(closed.url).host),
    )
    expect((await fetch(there, { redirect: 'manual' })).headers.get('location') ?? '').not.toContain('sign-in')
    await closed.stop()
    for (const odd of [
      siteUrl('/client').replace('https:', 'http:'),
      siteUrl('/x/../client'),
      siteUrl('/client#part'),
      siteUrl('/client').replace('localhost', 'me@localhost'),
      siteUrl('/'),
    ]) {
      expect((await asked(odd)).headers.get('location') ?? '').not.toContain('sign-in')
    }
    expect(fetched).toEqual([])
  })
})
