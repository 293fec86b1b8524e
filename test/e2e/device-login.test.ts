import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { launcher } from '../support/castellan-client.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { openChromium } from '../support/chromium.ts'
import { castellanJson, newPerson, postForm, type Row, signIn } from '../support/people.ts'
import { newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'
import { homeEnvironment } from '../support/run-castellan.ts'

/** `castellan login --device`: a terminal without a browser, and a person with one elsewhere. */
const GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
let server: RealServer
let ada: Readonly<{ email: string; password: string }>
let origin = ''
let home = ''

beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  server = await startRealServer({ env: { CASTELLAN_REQUIRE_KEYS: 'true' }, dataDir })
  origin = new URL(server.url).origin
  ada = await newPerson(server, 'ada@example.com', ['--role', 'editor'])
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-device-'))
  return () => rmSync(home, { recursive: true, force: true })
})

/** The program in a terminal; `shown` is what it prints for the person. */
function startLogin() {
  const child = spawn(launcher, ['login', '--url', origin, '--device'], { cwd: home, env: homeEnvironment(home) })
  let printed = ''
  const shown = new Promise<Readonly<{ url: string; code: string }>>((resolve) => {
    child.stderr.setEncoding('utf8').on('data', (piece: string) => {
      printed += piece
      const found = /^(http\S+)\n[^\n]*\n([A-Z]{4}-[A-Z]{4})\n/m.exec(printed)
      if (found !== null) resolve({ url: found[1]!, code: found[2]! })
    })
  })
  const output = text(child.stdout)
  const ended = once(child, 'close')
  return {
    shown,
    async end() {
      const [code] = await ended
      return { code: code as number, stdout: await output, stderr: printed }
    },
  }
}

async function openPage(page: Page, url: string): Promise<void> {
  await page.setViewportSize({ width: 390, height: 800 })
  await page.goto(url)
  await page.getByLabel('E-mail address').fill(ada.email)
  await page.getByLabel('Password').fill(ada.password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForURL(`${origin}/device`)
}
const fitsWidth = (page: Page) => page.evaluate('document.documentElement.scrollWidth <= 390')
const typeCode = async (page: Page, code: string) => {
  await page.getByLabel('Code').fill(code)
  await page.getByRole('button', { name: 'Continue' }).click()
}

const post = async (path: string, form: Record<string, string> | [string, string][]) => {
  const response = await fetch(`${origin}${path}`, { method: 'POST', body: new URLSearchParams(form) })
  return { status: response.status, body: (await response.json()) as Row }
}
async function register(fields: object = {}): Promise<string> {
  const response = await fetch(`${origin}/auth/oauth2/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      client_name: 'A program',
      token_endpoint_auth_method: 'none',
      grant_types: [GRANT, 'refresh_token'],
      response_types: [],
      ...fields,
    }),
  })
  return String(((await response.json()) as Row)['client_id'])
}
const request = (form: Record<string, string>) => post('/auth/oauth2/device_authorization', form)
const poll = (client_id: string, device_code: unknown) =>
  post('/auth/oauth2/token', { grant_type: GRANT, client_id, device_code: String(device_code) })

describe('castellan login --device', () => {
  it('signs a terminal in through a page on another machine, and the sign-in is renewed, listed and ended', async () => {
    await using browser = await openChromium()
    const terminal = startLogin()
    const { url, code } = await terminal.shown
    expect(url).toBe(`${origin}/device`)
    const page = await browser.context.newPage()
    const response = await page.request.get(url, { maxRedirects: 0 })
    expect(response.status()).toBe(303)
    await openPage(page, url)
    expect(await fitsWidth(page)).toBe(true)

    await typeCode(page, 'BBBB-BBBB')
    expect(await page.getByRole('alert').textContent()).toMatch(/^This code is wrong/)
    const policy = (await page.reload())!.headers()['content-security-policy']
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; frame-ancestors 'none'/)

    await page.goto(url)
    await typeCode(page, code.toLowerCase().replace('-', ' '))
    const asked = (await page.textContent('main'))!.replaceAll(/\s+/g, ' ')
    expect(asked).toMatch(/A program that calls itself castellan login on \S+, at the network address 127\.0\.0\.1/)
    expect(asked).toContain('asks to use Castellan as ada@example.com')
    expect(asked).toContain('answer approvals and change rules as you')
    expect(asked).toContain(`Its code is ${code}`)
    expect(await fitsWidth(page)).toBe(true)
    await page.getByRole('button', { name: 'Allow', exact: true }).click()
    expect(await page.getByRole('heading').textContent()).toBe('Signed in')
    expect(await terminal.end()).toMatchObject({ code: 0, stdout: `Signed in to ${origin} as ada@example.com.\n` })

    const there = (args: readonly string[]) => runCastellanHere([...args, '--url', origin], { home })
    const folder = join(home, '.local/state/castellan/logins')
    const file = join(folder, readdirSync(folder).find((name) => name.endsWith('.json'))!)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const login = JSON.parse(readFileSync(file, 'utf8')) as Row
    expect(login).toMatchObject({ resource: `${origin}/mcp`, accessToken: expect.stringMatching(/^csa_/) })

    // Refresh tokens rotate, and the old ones are of no use.
    const form = { grant_type: 'refresh_token', client_id: String(login['clientId']) }
    const renewed = await post('/auth/oauth2/token', { ...form, refresh_token: String(login['refreshToken']) })
    expect(renewed).toMatchObject({ status: 200, body: { refresh_token: expect.stringMatching(/^csr_/) } })
    expect(renewed.body['refresh_token']).not.toBe(login['refreshToken'])
    const token = String(renewed.body['access_token'])
    const whoami = async () =>
      (
        await fetch(`${origin}/v1/tools/whoami`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: '{}',
        })
      ).status
    expect(await whoami()).toBe(200)

    const { sessions } = await castellanJson(server, ['users', 'sessions', ada.email])
    const granted = (sessions as Row[]).find(({ kind }) => kind === 'client')!
    expect(granted).toMatchObject({ kind: 'client' })
    await castellanJson(server, ['users', 'revoke', ada.email, String(granted['id'])])
    expect(await whoami()).toBe(401)
    expect((await there(['call', 'whoami'])).code).not.toBe(0)
  })

  it('says so when the person does not allow it, though the server restarted meanwhile', async () => {
    const terminal = startLogin()
    const { code } = await terminal.shown
    const { dataDir, url } = server
    await server.stop()
    server = await startRealServer({
      env: { CASTELLAN_REQUIRE_KEYS: 'true' },
      port: Number(new URL(url).port),
      dataDir,
    })
    const cookie = await signIn(server, ada)
    const page = new URL('/device', server.url)
    const answered = await postForm(page, { code, decision: 'deny' }, { cookie })
    expect(await answered.text()).toContain('Not signed in')
    expect(await terminal.end()).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('You did not allow Castellan to act for you'),
    })
  })
})

describe('the device authorization grant', () => {
  it('is in the metadata, and says why a program gets nothing', async () => {
    const metadata = (await (await fetch(`${origin}/.well-known/oauth-authorization-server/auth`)).json()) as Row
    expect(metadata).toMatchObject({
      device_authorization_endpoint: `${origin}/auth/oauth2/device_authorization`,
      grant_types_supported: expect.arrayContaining([GRANT]),
    })
    const client_id = await register()
    const { status, body } = await request({ client_id })
    expect([status, body]).toEqual([
      200,
      {
        device_code: expect.stringMatching(/^csd_/),
        user_code: expect.stringMatching(/^[A-Z]{4}-[A-Z]{4}$/),
        verification_uri: `${origin}/device`,
        expires_in: 600,
        interval: 5,
      },
    ])
    const code = body['device_code']
    expect(await poll(client_id, code)).toMatchObject({ status: 400, body: { error: 'authorization_pending' } })
    const again = async () => (await poll(client_id, code)).body['error']
    await expect.poll(again, { timeout: 60_000 }).toBe('slow_down')
    expect(await poll(client_id, 'csd_unknown')).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    expect(await poll(await register(), code)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    // Neither code is stored so that it could be used, and only the person types theirs.
    expect(readFileSync(join(server.dataDir, 'castellan.db')).includes(String(code))).toBe(false)
  })

  it('refuses a program that may not use it, a scope that there is not, and the address of another server', async () => {
    const coded = {
      grant_types: ['authorization_code'],
      response_types: ['code'],
      redirect_uris: ['http://127.0.0.1:9/'],
    }
    const other = await register(coded)
    expect(await request({ client_id: other })).toMatchObject({ status: 400, body: { error: 'unauthorized_client' } })
    const client_id = await register()
    const wanted = await request({ client_id, scope: 'offline_access everything' })
    expect(wanted).toMatchObject({ status: 400, body: { error: 'invalid_scope' } })
    const elsewhere = await request({ client_id, resource: 'https://other.example/mcp' })
    expect(elsewhere).toMatchObject({ status: 400, body: { error: 'invalid_target' } })
    expect(await request({ client_id: 'nobody' })).toMatchObject({ body: { error: 'invalid_client' } })
    expect(await request({})).toMatchObject({ status: 400 })
  })

  it('needs a person who is signed in, at this server', async () => {
    const client_id = await register()
    const { body } = await request({ client_id })
    const page = new URL('/device', origin)
    const answer = { code: String(body['user_code']), decision: 'allow' }
    const signedOut = await postForm(page, answer)
    expect([signedOut.status, signedOut.headers.get('location')]).toEqual([303, '/sign-in?next=device'])
    const cookie = await signIn(server, ada)
    const foreign = await postForm(page, answer, { cookie, origin: 'https://evil.example' })
    expect(foreign.status).toBe(403)
    expect(await poll(client_id, body['device_code'])).toMatchObject({ body: { error: 'authorization_pending' } })
  })
})
