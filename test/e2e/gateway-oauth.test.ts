import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { UnauthorizedError as OlderUnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OlderTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as OlderTransportType } from '@modelcontextprotocol/sdk/shared/transport.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { letIn, type OauthPerson, openOauthPerson, type Person } from '../support/oauth-person.ts'
import { oauthProgram, type Saved } from '../support/oauth-program.ts'
import { castellanJson, newPerson } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** People who let a client in at the address of a gateway: real SDKs, the Inspector's page, a real browser, the real program. */
let server: ServerHere
let browser: Awaited<ReturnType<typeof openChromium>>
let ada: Person
let person: OauthPerson

const call = (tool: string, ...args: string[]) => castellanJson(server, ['call', tool, ...args])
const addressOf = (path: string): URL => new URL(path, server.url)

beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  server = await startServerHere({ env: { CASTELLAN_REQUIRE_KEYS: 'true' }, dataDir })
  browser = await openChromium()
  ada = await newPerson(server, 'ada@example.com', ['--role', 'editor'])
  person = await openOauthPerson(browser.context, ada)
  for (const name of ['Office', 'Workshop']) {
    await call('create_mcp_gateway', `name=${name}`)
    const assignments = JSON.stringify(
      ['task_list', 'task_create', 'whoami'].map((toolId) => ({ mcpGatewayId: name.toLowerCase(), toolId })),
    )
    await call('bulk_assign_tools_to_mcp_gateways', `assignments=${assignments}`)
  }
})
afterAll(async () => {
  await person[Symbol.asyncDispose]()
  await browser[Symbol.asyncDispose]()
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
}
const post = (path: string, token?: string, body: object = initialize) =>
  fetch(addressOf(path), {
    method: 'POST',
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify(body),
  })

async function signedIn(path: string, mode: 'auto' | 'legacy'): Promise<{ client: Client; saved: Saved }> {
  const saved: Saved = {}
  const authProvider = oauthProgram(saved, person.redirectUrl, { token_endpoint_auth_method: 'none' })
  const open = () => new Client({ name: 'a', version: '1' }, { versionNegotiation: { mode } })
  const first = new StreamableHTTPClientTransport(addressOf(path), { authProvider })
  await expect(open().connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
  await first.finishAuth(await person.answer(saved.opened!))
  const client = open()
  await client.connect(new StreamableHTTPClientTransport(addressOf(path), { authProvider }))
  return { client, saved }
}

const namesOf = ({ tools }: { tools: { name: string }[] }) => tools.map(({ name }) => name).sort()
const OFFERED = ['task_create', 'task_list', 'whoami']

describe('discovery at the address of a gateway', () => {
  it('leads from the refusal to the metadata of that address alone', async () => {
    for (const path of ['/mcp/office', '/mcp/workshop']) {
      const refused = await post(path, undefined, ping)
      expect(refused.status).toBe(401)
      const [, metadataUrl] = /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate')!)!
      expect(metadataUrl).toBe(addressOf(`/.well-known/oauth-protected-resource${path}`).href)
      const metadata = (await (await fetch(metadataUrl!)).json()) as {
        resource: string
        authorization_servers: string[]
      }
      expect(metadata.resource).toBe(addressOf(path).href)
      const issuer = new URL(metadata.authorization_servers[0]!)
      const found = await fetch(new URL(`/.well-known/oauth-authorization-server${issuer.pathname}`, issuer))
      expect(await found.json()).toMatchObject({
        issuer: issuer.href,
        registration_endpoint: expect.any(String),
        code_challenge_methods_supported: ['S256'],
      })
    }
  })

  it('does not tell which gateways there are', async () => {
    const [there, nowhere] = await Promise.all(
      ['/mcp/office', '/mcp/nowhere'].map((path) => post(path, undefined, ping)),
    )
    expect([there!.status, nowhere!.status]).toEqual([401, 401])
    const told = async (response: Response, slug: string) => (await response.text()).replaceAll(slug, 'SLUG')
    const plain = (text: string) => text.replace(/"request_id":"[^"]*"/, '')
    expect(plain(await told(there!, 'office'))).toBe(plain(await told(nowhere!, 'nowhere')))
  })
})

describe('a client that a person lets in at a gateway', () => {
  it.each(['auto', 'legacy'] as const)('of the SDK of today acts as the person there (%s)', async (mode) => {
    const { client } = await signedIn('/mcp/office', mode)
    expect(namesOf(await client.listTools())).toEqual(OFFERED)
    const made = await client.callTool({ name: 'task_create', arguments: { title: 'by a client', project: 'oauth' } })
    expect(made.structuredContent).toMatchObject({ created_by: 'ada@example.com' })
    await client.close()
  })

  it('of version 1 does so too', async () => {
    const saved: Saved = {}
    const authProvider = oauthProgram(saved, person.redirectUrl)
    const first = new OlderTransport(addressOf('/mcp/office'), { authProvider })
    const refused = new OlderClient({ name: 'a', version: '1' }).connect(first as OlderTransportType)
    await expect(refused).rejects.toBeInstanceOf(OlderUnauthorizedError)
    await first.finishAuth((await person.answer(saved.opened!)).get('code')!)
    const client = new OlderClient({ name: 'a', version: '1' })
    await client.connect(new OlderTransport(addressOf('/mcp/office'), { authProvider }) as OlderTransportType)
    expect(namesOf(await client.listTools())).toEqual(OFFERED)
    const { structuredContent } = await client.callTool({ name: 'whoami', arguments: {} })
    expect(JSON.stringify(structuredContent)).toContain('ada@example.com')
    await client.close()
  })

  it('is allowed for each address apart, which the page names', async () => {
    const { client, saved } = await signedIn('/mcp/office', 'auto')
    await client.close()
    const page = await browser.context.newPage()
    const asked = async (path: string): Promise<string> => {
      const url = new URL(saved.opened!)
      url.searchParams.set('resource', addressOf(path).href)
      await page.goto(url.href)
      return (await page.textContent('main')) ?? ''
    }
    // A loopback address may be any program's, so what was allowed before is asked again.
    expect(await asked('/mcp/office')).toContain('the tools at /mcp/office, and no others')
    expect(await asked('/mcp/workshop')).toContain('the tools at /mcp/workshop, and no others')
    expect(await asked('/mcp')).toContain('everything that you can do')
    await page.close()
  })

  it('cannot turn what the person allowed into a token for another address', async () => {
    const saved: Saved = {}
    const authProvider = oauthProgram(saved, person.redirectUrl, { token_endpoint_auth_method: 'none' })
    const first = new StreamableHTTPClientTransport(addressOf('/mcp/office'), { authProvider })
    await expect(new Client({ name: 'a', version: '1' }).connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
    const answered = await person.answer(saved.opened!)
    const { client_id } = saved.information as { client_id: string }
    const token = async (form: Record<string, string>) => {
      const response = await fetch(addressOf('/auth/oauth2/token'), {
        method: 'POST',
        body: new URLSearchParams({ client_id, ...form }),
      })
      return { status: response.status, ...((await response.json()) as { access_token?: string }) }
    }
    const elsewhere = addressOf('/mcp').href
    const code = { grant_type: 'authorization_code', code: answered.get('code')!, code_verifier: saved.verifier! }
    const widened = await token({ ...code, redirect_uri: person.redirectUrl, resource: elsewhere })
    expect([widened.status, widened.access_token]).toEqual([400, undefined])
    const { client, saved: other } = await signedIn('/mcp/office', 'auto')
    await client.close()
    const own = (other.information as { client_id: string }).client_id
    const refreshed = await token({
      ...{ client_id: own, grant_type: 'refresh_token', refresh_token: other.tokens!.refresh_token! },
      resource: elsewhere,
    })
    expect([refreshed.status, refreshed.access_token]).toEqual([400, undefined])
  })

  it('has a token that is good at that gateway and nowhere else', async () => {
    const { client, saved } = await signedIn('/mcp/office', 'auto')
    await client.close()
    const token = saved.tokens!.access_token
    expect((await post('/mcp/office', token)).status).toBe(200)
    for (const elsewhere of ['/mcp/workshop', '/mcp', '/v1/tools/task_list']) {
      const refused = await post(elsewhere, token)
      expect(refused.status, elsewhere).toBe(401)
    }
    const plain = await signedIn('/mcp', 'auto')
    await plain.client.close()
    expect((await post('/mcp', plain.saved.tokens!.access_token)).status).toBe(200)
    expect((await post('/mcp/office', plain.saved.tokens!.access_token)).status).toBe(401)
  })
})

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as { port: number }
  probe.close()
  await once(probe, 'close')
  return port
}

/** The Inspector's own server, for the pages of one client. */
async function openInspector(at: URL): Promise<AsyncDisposable & { url: string }> {
  const launcher = 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js'
  const home = newDataDir()
  const child = spawn(process.execPath, [launcher, '--web', '--server-url', at.href, '--transport', 'http'], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: {
      PATH: process.env['PATH'],
      HOME: home,
      MCP_STORAGE_DIR: home,
      MCP_INSPECTOR_SECRET_STORE: 'memory',
      MCP_AUTO_OPEN_ENABLED: 'false',
      CLIENT_PORT: String(await freePort()),
      MCP_SANDBOX_PORT: String(await freePort()),
      MCP_APP_ORIGIN_PORT: String(await freePort()),
    },
  })
  const exited = once(child, 'exit')
  let said = ''
  for await (const piece of child.stdout) {
    said += String(piece)
    if (/API_TOKEN=\w+\s/.test(said)) break
  }
  return {
    url: /http:\/\/\S+API_TOKEN=\w+/.exec(said)![0],
    async [Symbol.asyncDispose]() {
      child.kill()
      await exited
      rmSync(home, { recursive: true, force: true })
    },
  }
}

describe('the Inspector', () => {
  it('signs in through its own page', { timeout: 120_000 }, async () => {
    await using inspector = await openInspector(addressOf('/mcp/office'))
    const page = await browser.context.newPage()
    await page.goto(inspector.url)
    // The switch itself is hidden behind what is drawn.
    await page.getByRole('switch').click({ force: true })
    await page.waitForURL((url) => url.origin === addressOf('/').origin)
    await letIn(page, ada)
    await page.waitForURL((url) => url.origin === new URL(inspector.url).origin)
    await page.getByText('Connected', { exact: true }).waitFor()
    await page.getByText('Tools', { exact: true }).first().click()
    for (const name of OFFERED) await page.getByText(name, { exact: true }).first().waitFor()
    await page.close()
  })
})
