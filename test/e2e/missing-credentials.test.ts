import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { openOauthPerson } from '../support/oauth-person.ts'
import { oauthProgram, type Saved } from '../support/oauth-program.ts'
import { castellanJson, newPerson, postForm, type Row, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** A member whose client may use one gateway alone calls a tool there that needs credentials of their own. */
let server: ServerHere
let upstream: McpUpstream
let browser: Awaited<ReturnType<typeof openChromium>>
let dan: Awaited<ReturnType<typeof newPerson>>
let catalogId = ''

const call = (tool: string, args: object) =>
  castellanJson(server, [
    'call',
    tool,
    ...Object.entries(args).map(([name, value]) => `${name}=${JSON.stringify(value)}`),
  ])
const at = (path: string): URL => new URL(path, server.url)

beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    'require_keys: true\nweb: { allow_private_addresses: ["127.0.0.1"] }\n',
  )
  server = await startServerHere({ dataDir })
  browser = await openChromium()
  upstream = await startMcpUpstream()
  dan = await newPerson(server, 'dan@example.com')
  const authFields = [{ name: 'X-Api-Key', label: 'Key', type: 'header', secret: true }]
  const item = await call('create_mcp_server', {
    ...{ name: 'Crm', serverUrl: upstream.url, scope: 'org', requiresAuth: true, authFields },
  })
  catalogId = String(item['id'])
  await call('deploy_mcp_server', { catalogId, values: { 'X-Api-Key': 'of-the-owner' } })
  await call('create_mcp_gateway', { name: 'Work' })
  const assignments = [{ mcpGatewayId: 'work', toolId: 'crm__echo', resolveAtCallTime: true }]
  await call('bulk_assign_tools_to_mcp_gateways', { assignments })
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

async function clientOfDan(path: string): Promise<Client> {
  await using person = await openOauthPerson(browser.context, dan)
  const saved: Saved = {}
  const authProvider = oauthProgram(saved, person.redirectUrl, { token_endpoint_auth_method: 'none' })
  const open = () => new Client({ name: 'a', version: '1' })
  const first = new StreamableHTTPClientTransport(at(path), { authProvider })
  await expect(open().connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
  await first.finishAuth(await person.answer(saved.opened!))
  const client = open()
  await client.connect(new StreamableHTTPClientTransport(at(path), { authProvider }))
  return client
}
type Failure = Readonly<{ code: string; message: string; details: Row }>

it('is led by the error to a page that installs the server for them, and the call is then made', async () => {
  const client = await clientOfDan('/mcp/work')
  const echo = () => client.callTool({ name: 'crm__echo', arguments: { text: 'hello' } })
  const [said] = (await echo()).content as { text: string }[]
  const { error } = JSON.parse(said!.text) as { error: Failure }
  const page = at(`/mcp-servers/${catalogId}/install`)
  expect(error).toMatchObject({ code: 'ERR_CREDENTIAL_REQUIRED', details: { install_url: page.href, server: 'crm' } })
  expect(error.message).toContain(page.href)
  expect(error.message).not.toContain('install_mcp_server')

  const cookie = await signIn(server, dan)
  expect((await fetch(page)).status).toBe(401)
  expect((await postForm(page, {})).status).toBe(401)
  expect((await postForm(page, {}, { cookie, origin: 'https://elsewhere.example' })).status).toBe(403)
  const shown = await fetch(page, { headers: { cookie } })
  expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining('Crm')])
  expect((await fetch(at('/mcp-servers/nothing/install'), { headers: { cookie } })).status).toBe(404)

  const led = await postForm(page, {}, { cookie })
  expect(led.status).toBe(303)
  const link = new URL(led.headers.get('location')!)
  expect(link.pathname).toMatch(/^\/secrets\//)
  expect((await postForm(link, { 'X-Api-Key': 'of-dan' })).status).toBe(200)
  await expect.poll(async () => (await echo()).isError ?? false, { timeout: 20_000 }).toBe(false)
  expect(upstream.requests.at(-1)?.headers['x-api-key']).toBe('of-dan')
  expect((await postForm(link, { 'X-Api-Key': 'again' })).status).toBe(404)

  const log = join(server.dataDir, 'exported.jsonl')
  await castellanJson(server, ['export', log])
  const ofDan = readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => line.includes('dan@example.com'))
  for (const tool of ['install_mcp_server', 'secret_link_submit'])
    expect(
      ofDan.filter((line) => line.includes(`"tool":"${tool}"`)),
      tool,
    ).toHaveLength(1)
  await client.close()
})

it('says at the page that a server which cannot be reached is not there yet', async () => {
  const item = await call('create_mcp_server', { name: 'Gone', serverUrl: 'http://127.0.0.1:1/mcp', scope: 'org' })
  const page = at(`/mcp-servers/${String(item['id'])}/install`)
  const answered = await postForm(page, {}, { cookie: await signIn(server, dan) })
  expect(answered.status).toBe(400)
  const text = await answered.text()
  expect(text).toContain('This did not work')
  expect(text).toContain('Gone is deployed, but cannot be used yet')
})
