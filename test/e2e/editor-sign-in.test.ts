import { rmSync } from 'node:fs'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { letIn } from '../support/oauth-person.ts'
import { oauthProgram, type Saved } from '../support/oauth-program.ts'
import { castellanJson, newPerson } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Editors sign in as they do: with the registrations that they send, and an address that only they receive. */
const CURSOR = 'cursor://anysphere.cursor-mcp/oauth/callback'
const ofCursor = {
  client_name: 'Cursor',
  redirect_uris: [CURSOR, 'https://www.cursor.com/agents/mcp/oauth/callback', 'http://localhost:8787/callback'],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
}

let server: ServerHere
let browser: Awaited<ReturnType<typeof openChromium>>
let ada: Awaited<ReturnType<typeof newPerson>>

beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  server = await startServerHere({ env: { CASTELLAN_REQUIRE_KEYS: 'true' }, dataDir })
  browser = await openChromium()
  ada = await newPerson(server, 'ada@example.com', ['--role', 'editor'])
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

async function register(metadata: object) {
  const body = JSON.stringify({ token_endpoint_auth_method: 'none', ...metadata })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(new URL('/auth/oauth2/register', server.url), { method: 'POST', headers, body })
  return { status: answer.status, client: (await answer.json()) as Record<string, unknown> }
}

/** A browser without the editor shows nothing after the redirect, so the answer to the form is read. */
async function consentTo(opened: URL) {
  await using page = await browser.context.newPage()
  const refusals: string[] = []
  page.on('console', (message) => refusals.push(message.text()))
  await page.goto(opened.href)
  if ((await page.title()).startsWith('Sign in')) {
    await page.getByLabel('E-mail address').fill(ada.email)
    await page.getByLabel('Password').fill(ada.password)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.waitForLoadState()
  }
  const text = (await page.locator('body').textContent()) ?? ''
  const answered = page.waitForResponse((response) => response.request().method() === 'POST')
  await letIn(page, ada)
  const sentTo = new URL((await (await answered).headerValue('location'))!)
  return { text, sentTo, refusals }
}

describe('Cursor', () => {
  it('signs in at its own address, with a code that it exchanges and a token that it refreshes', async () => {
    const saved: Saved = {}
    const authProvider = oauthProgram(saved, CURSOR, ofCursor)
    const first = new StreamableHTTPClientTransport(new URL(server.url), { authProvider })
    await expect(new Client({ name: 'a', version: '1' }).connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
    expect(saved.information).toMatchObject({ redirect_uris: ofCursor.redirect_uris, application_type: 'native' })

    const { text, sentTo, refusals } = await consentTo(saved.opened!)
    expect(text).toContain(`It is reached at ${CURSOR}.`)
    expect(refusals.join()).not.toContain('Content Security Policy')
    expect(sentTo.href.split('?')[0]).toBe(CURSOR)
    await first.finishAuth(sentTo.searchParams)

    const client = new Client({ name: 'a', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { authProvider }))
    const made = await client.callTool({ name: 'task_create', arguments: { title: 'by an editor', project: 'oauth' } })
    expect(made.structuredContent).toMatchObject({ created_by: 'ada@example.com' })
    await client.close()
    const { client_id } = saved.information as { client_id: string }
    const refresh_token = saved.tokens!.refresh_token!
    const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token, client_id })
    const renewed = await fetch(new URL('/auth/oauth2/token', server.url), { method: 'POST', body })
    expect(renewed.status).toBe(200)

    // Another program on the machine could claim the address, so the person is asked each time.
    expect((await consentTo(saved.opened!)).text).toContain('Cursor')
  })

  it('gets a code only with PKCE, and only at an address that it registered', async () => {
    const { client } = await register(ofCursor)
    const { client: local } = await register({ redirect_uris: ['http://127.0.0.1:9/'] })
    const authorised = async (client_id: unknown, redirect_uri: string) => {
      const query = new URLSearchParams({
        response_type: 'code',
        client_id: String(client_id),
        redirect_uri,
        state: 's',
      })
      const url = new URL(`/auth/oauth2/authorize?${query}`, server.url)
      return await (await fetch(url, { redirect: 'manual' })).text()
    }
    expect(await authorised(client['client_id'], CURSOR)).toContain('error=invalid_request')
    for (const uri of [
      `${CURSOR}/`,
      `${CURSOR}?x=1`,
      'cursor://anysphere.cursor-mcp/other',
      'castellan.known:/0',
      'http://127.0.0.1:9/',
    ]) {
      expect(await authorised(client['client_id'], uri)).toContain('/error?error=invalid_redirect')
    }
    expect(await authorised(local['client_id'], CURSOR)).toContain('/error?error=invalid_redirect')
  })
})

describe('a registration of an editor', () => {
  it.each([
    ['Cursor alone', [CURSOR]],
    ['Warp', ['warp://mcp/oauth2callback']],
    ['a page of the maker and this machine', ['https://vscode.dev/redirect', 'http://127.0.0.1:33418/']],
    [
      'VS Code',
      [
        'https://insiders.vscode.dev/redirect',
        'https://vscode.dev/redirect',
        'http://127.0.0.1/',
        'http://127.0.0.1:33418/',
      ],
    ],
    ['a scheme of its own domain', ['com.raycast:/oauth']],
  ])('is accepted: %s', async (_, redirect_uris) => {
    const { status, client } = await register({ redirect_uris })
    expect(client).toMatchObject({ redirect_uris, application_type: 'native' })
    expect(status).toBe(201)
    expect((await register({ redirect_uris, application_type: 'native' })).status).toBe(201)
  })

  it.each([
    'cursor://anysphere.cursor-mcp/oauth/callback/',
    'cursor://anysphere.cursor-mcp/oauth/callback?x=1',
    'cursor://anysphere.cursor-mcp/oauth/callback#x',
    'cursor://x@anysphere.cursor-mcp/oauth/callback',
    'CURSOR://anysphere.cursor-mcp/oauth/callback',
    ' cursor://anysphere.cursor-mcp/oauth/callback',
    'cursor://anysphere.cursor-deeplink/mcp/install',
    'vscode://file/etc/passwd',
    'javascript:alert(1)',
    'http://example.com/',
  ])('is refused with any other address: %s', async (uri) => {
    for (const redirect_uris of [[uri], [...ofCursor.redirect_uris, uri]]) {
      expect(await register({ redirect_uris })).toMatchObject({ status: 400 })
    }
  })

  it('is refused if it says that the client is a web site', async () => {
    expect((await register({ ...ofCursor, application_type: 'web' })).status).toBe(400)
  })
})
