import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { UnauthorizedError as OlderUnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OlderTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { startModelPeer } from '../support/model-peer.ts'
import { type OauthPerson, openOauthPerson, type Person } from '../support/oauth-person.ts'
import { oauthProgram, type Saved } from '../support/oauth-program.ts'
import { castellanJson, newPerson, type Row } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Clients that a person lets in: real SDKs, a real browser, the real program. */
let server: ServerHere
let browser: Awaited<ReturnType<typeof openChromium>>
let ada: Person
let person: OauthPerson
let peer: Awaited<ReturnType<typeof startModelPeer>>

beforeAll(async () => {
  const dataDir = newDataDir()
  peer = await startModelPeer()
  const models = [{ alias: 'default', model: 'm' }]
  const providers = [{ name: 'peer', type: 'openai-compatible', endpoint: peer.url, models }]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  server = await startServerHere({ env: { CASTELLAN_REQUIRE_KEYS: 'true' }, dataDir })
  browser = await openChromium()
  ada = await newPerson(server, 'ada@example.com', ['--role', 'editor'])
  person = await openOauthPerson(browser.context, ada)
})
afterAll(async () => {
  await person[Symbol.asyncDispose]()
  await browser[Symbol.asyncDispose]()
  await server.stop()
  peer.close()
  rmSync(server.dataDir, { recursive: true, force: true })
})

async function connected(saved: Saved = {}) {
  const provider = oauthProgram(saved, person.redirectUrl, { token_endpoint_auth_method: 'none' })
  const first = new StreamableHTTPClientTransport(new URL(server.url), { authProvider: provider })
  await expect(new Client({ name: 'a', version: '1' }).connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
  const answered = await person.answer(saved.opened!)
  await first.finishAuth(answered)
  const client = new Client({ name: 'a', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { authProvider: provider }))
  return { client, saved }
}

const callWith = (token: string, path = '/mcp') =>
  fetch(new URL(path, server.url), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
    }),
  })

describe('a client of the SDK', () => {
  it('of today signs in through the browser and acts as the person', async () => {
    const { client, saved } = await connected()
    const made = await client.callTool({ name: 'task_create', arguments: { title: 'by a client', project: 'oauth' } })
    expect(made.structuredContent).toMatchObject({ created_by: 'ada@example.com' })
    await client.close()
    expect(saved.tokens?.access_token).toMatch(/^csa_/)
  })

  it('that names no scope does not get that of the command line', async () => {
    const { client, saved } = await connected()
    await client.close()
    expect(saved.tokens).toMatchObject({ scope: 'offline_access' })
    expect(saved.information).toMatchObject({ scope: 'offline_access' })
    const consentText = async (scope: string): Promise<string> => {
      const url = new URL(saved.opened!)
      url.searchParams.delete('scope')
      if (scope !== '') url.searchParams.set('scope', scope)
      await using page = await browser.context.newPage()
      await page.goto(url.href)
      expect(await page.title()).toContain('Allow access?')
      return (await page.locator('body').textContent()) ?? ''
    }
    expect(await consentText('')).not.toContain('answer approvals and change rules as you')
    expect(await consentText('offline_access terminal')).toContain('answer approvals and change rules as you')
  })

  it('of version 1 does so too', async () => {
    const saved: Saved = {}
    const provider = oauthProgram(saved, person.redirectUrl)
    const first = new OlderTransport(new URL(server.url), { authProvider: provider })
    await expect(new OlderClient({ name: 'a', version: '1' }).connect(first)).rejects.toBeInstanceOf(
      OlderUnauthorizedError,
    )
    const answered = await person.answer(saved.opened!)
    await first.finishAuth(answered.get('code')!)
    const client = new OlderClient({ name: 'a', version: '1' })
    await client.connect(new OlderTransport(new URL(server.url), { authProvider: provider }))
    const { structuredContent } = await client.callTool({ name: 'server_ping', arguments: {} })
    expect(structuredContent).toMatchObject({ ok: true })
    await client.close()
  })
})

describe('what a client was given', () => {
  it('reaches models as the person, in the place of the key of a provider, which never sees it', async () => {
    const { client, saved } = await connected()
    const token = saved.tokens!.access_token
    const openai = new OpenAI({ apiKey: token, baseURL: new URL('/v1/peer', server.url).href, maxRetries: 0 })
    const answer = await openai.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] })
    expect(answer.choices[0]!.message.content).toBe('Hello.')
    expect(JSON.stringify(peer.requests.at(-1)!.headers)).not.toContain('csa_')
    const { structuredContent } = await client.callTool({
      name: 'run_tool',
      arguments: { tool_name: 'interaction_list' },
    })
    const [{ id }] = (structuredContent as { interactions: [{ id: string }] }).interactions
    const run = { tool_name: 'interaction_get', tool_args: { id } }
    const noted = await client.callTool({ name: 'run_tool', arguments: run })
    expect(noted.structuredContent).toMatchObject({
      interaction: { actor: 'ada@example.com', authenticated_by: 'oauth' },
    })
    await client.close()
    const wrong = new OpenAI({ apiKey: `${token}x`, baseURL: new URL('/v1/peer', server.url).href, maxRetries: 0 })
    await expect(wrong.models.list()).rejects.toMatchObject({ status: 401 })
  })

  it('is good for the address it was given for, and for no other', async () => {
    const { client, saved } = await connected()
    await client.close()
    const token = saved.tokens!.access_token
    expect((await callWith(token)).status).toBe(200)
    const elsewhere = await fetch(server.url.replace('127.0.0.1', 'localhost'), {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    })
    expect(elsewhere.status).toBe(401)
  })

  it('is refreshed, and the old refresh token works no more', async () => {
    const { client, saved } = await connected()
    await client.close()
    const { client_id } = saved.information as { client_id: string }
    const refresh = (refresh_token: string) =>
      fetch(new URL('/auth/oauth2/token', server.url), {
        method: 'POST',
        body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token, client_id }),
      })
    const before = saved.tokens!.refresh_token!
    const renewed = (await (await refresh(before)).json()) as { access_token: string; refresh_token: string }
    expect((await callWith(renewed.access_token)).status).toBe(200)
    expect(renewed.refresh_token).not.toBe(before)
    expect((await refresh(before)).status).toBe(400)
    // An attacker has a token that was used already: everything that came of it ends.
    expect((await refresh(renewed.refresh_token)).status).toBe(400)
  })

  it('ends at once when an administrator ends it, and when the client gives it back', async () => {
    const { client, saved } = await connected()
    await client.close()
    const token = saved.tokens!.access_token
    const listed = await castellanJson(server, ['users', 'sessions', 'ada@example.com'])
    const grants = (listed['sessions'] as Row[]).filter(({ kind }) => kind === 'client')
    for (const { id } of grants) await castellanJson(server, ['users', 'revoke', 'ada@example.com', String(id)])
    expect((await callWith(token)).status).toBe(401)

    const other = await connected()
    await other.client.close()
    const { client_id } = other.saved.information as { client_id: string }
    const given = other.saved.tokens!.access_token
    expect((await callWith(given)).status).toBe(200)
    const body = new URLSearchParams({ token: given, client_id })
    const revoked = await fetch(new URL('/auth/oauth2/revoke', server.url), { method: 'POST', body })
    expect(revoked.status).toBe(200)
    expect((await callWith(given)).status).toBe(401)
  })
})

describe('a person who does not allow it', () => {
  it('gives the client nothing', async () => {
    const saved: Saved = {}
    const transport = new StreamableHTTPClientTransport(new URL(server.url), {
      authProvider: oauthProgram(saved, person.redirectUrl),
    })
    await expect(new Client({ name: 'a', version: '1' }).connect(transport)).rejects.toBeInstanceOf(UnauthorizedError)
    const answered = await person.answer(saved.opened!, 'Do not allow')
    expect(answered.get('error')).toBe('access_denied')
    expect(answered.get('code')).toBeNull()
  })
})
