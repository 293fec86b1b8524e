import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { type Account, CLIENT_ID, CLIENT_SECRET, startIdentityProvider } from '../support/identity-provider.ts'
import { castellanJson, type Row } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** People who sign in with an identity provider of others: a real one, a real browser, the real program. */
let server: ServerHere
let browser: Awaited<ReturnType<typeof openChromium>>
let provider: Awaited<ReturnType<typeof startIdentityProvider>>
const accounts: Record<string, Account> = {
  known: { email: 'known@example.com', email_verified: true },
  invited: { email: 'Invited@Example.com', email_verified: true, name: 'Ina Vited' },
  uninvited: { email: 'uninvited@example.com', email_verified: true },
  unverified: { email: 'known@example.com', email_verified: false },
  elsewhere: { email: 'elsewhere@example.com', email_verified: true },
  created: { email: 'new@company.example', email_verified: true, name: 'New <b>' },
  foreign: { email: 'new@other.example', email_verified: true },
  unsaid: { email: 'known@example.com' },
}

beforeAll(async () => {
  provider = await startIdentityProvider(accounts)
  const dataDir = newDataDir()
  const entry = { issuer: provider.issuer, client_id: CLIENT_ID, client_secret: 'env:OIDC_SECRET' }
  const config = {
    oidc_providers: [
      { id: 'company', name: 'Company', ...entry },
      {
        ...{ id: 'open', name: 'Open <i>', ...entry, new_users: 'create', default_role: 'editor' },
        email_domains: ['company.example'],
      },
      { id: 'trusted', name: 'Trusted', ...entry, assume_email_verified: true },
      { id: 'gone', name: 'Gone', ...entry, issuer: 'http://127.0.0.1:2' },
      { id: 'unset', name: 'Unset', ...entry, client_secret: 'env:OIDC_SECRET_THAT_IS_NOT_SET' },
    ],
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  await castellanJson({ dataDir }, ['users', 'create', 'known@example.com', '--admin'])
  await castellanJson({ dataDir }, ['users', 'create', 'elsewhere@example.com', '--tenant', 'acme'])
  const env = { CASTELLAN_REQUIRE_KEYS: 'true', OIDC_SECRET: CLIENT_SECRET }
  server = await startServerHere({ dataDir, env })
  browser = await openChromium()
})
afterEach(async () => {
  for (const page of browser.context.pages().slice(1)) await page.close()
  await browser.context.clearCookies()
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await server.stop()
  await provider[Symbol.asyncDispose]()
  rmSync(server.dataDir, { recursive: true, force: true })
})

const at = (path: string): string => new URL(path, server.url).href
const cli = (...args: string[]) => castellanJson(server, args)
const usersOf = async (email: string) =>
  ((await cli('users', 'list'))['users'] as Row[]).filter((user) => user['email'] === email)

/** Presses the button of a provider, and answers the provider's own questions. */
async function signInWith(id: string, name: string, login: string): Promise<Page> {
  provider.allow(at(`/auth/callback/${id}`))
  const page = await browser.context.newPage()
  await page.setViewportSize({ width: 390, height: 800 })
  await page.goto(at('/sign-in'))
  await page.getByRole('link', { name: `Sign in with ${name}` }).click()
  await page.locator('[name=login]').fill(login)
  await page.locator('[name=password]').fill('anything')
  await page.locator('[type=submit]').click()
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.waitForURL((url) => url.origin === new URL(server.url).origin)
  return page
}

const shown = async (page: Page): Promise<string> => (await page.textContent('main')) ?? ''

describe('a person whom an identity provider vouches for', () => {
  it('is the user with that e-mail address, and stays so when the address changes there', async () => {
    const page = await signInWith('company', 'Company', 'known')
    expect(page.url()).toBe(at('/account'))
    expect(await shown(page)).toContain('known@example.com')
    const database = new DatabaseSync(join(server.dataDir, 'castellan.db'), { readOnly: true })
    const kept = database.prepare(`SELECT * FROM user_accounts WHERE "providerId" = 'company'`).all()
    database.close()
    expect(kept).toMatchObject([{ accountId: 'known', accessToken: null, refreshToken: null, idToken: null }])
    await browser.context.clearCookies()
    accounts['known'] = { email: 'renamed@example.com', email_verified: true }
    const again = await signInWith('company', 'Company', 'known')
    expect(await shown(again)).toContain('known@example.com')
    expect(await usersOf('renamed@example.com')).toEqual([])
    accounts['known'] = { email: 'known@example.com', email_verified: true }
  })

  it('comes in by an open invitation, with its role and teams', async () => {
    await cli('teams', 'create', 'design')
    const { id } = await cli('invite', 'create', 'invited@example.com', '--role', 'editor', '--teams', 'design')
    const page = await signInWith('company', 'Company', 'invited')
    expect(await shown(page)).toContain('invited@example.com, editor')
    const [user] = await usersOf('invited@example.com')
    expect(user).toMatchObject({ name: 'Ina Vited', role: 'editor', teams: [expect.any(String)] })
    const invitations = (await cli('invite', 'list'))['invitations'] as Row[]
    expect(invitations.find((invitation) => invitation['id'] === id)).toMatchObject({ status: 'accepted' })
  })

  it('is refused if nobody invited them, and if the address is not verified or of another organisation', async () => {
    for (const login of ['uninvited', 'elsewhere']) {
      const page = await signInWith('company', 'Company', login)
      expect(await page.getByRole('alert').textContent()).toContain('This e-mail address may not sign in here')
      await browser.context.clearCookies()
    }
    const page = await signInWith('company', 'Company', 'unverified')
    expect(await page.getByRole('alert').textContent()).toContain('has not verified your e-mail address')
    await page.goto(at('/account'))
    expect(page.url()).toBe(at('/sign-in'))
    expect(await usersOf('uninvited@example.com')).toEqual([])
  })

  it('needs a verified address, unless the settings say that the provider verifies all and only leaves it unsaid', async () => {
    const refused = await signInWith('company', 'Company', 'unsaid')
    expect(await refused.getByRole('alert').textContent()).toContain('does not say whether your e-mail address is')
    await browser.context.clearCookies()
    expect(await shown(await signInWith('trusted', 'Trusted', 'unsaid'))).toContain('known@example.com')
    await browser.context.clearCookies()
    const unverified = await signInWith('trusted', 'Trusted', 'unverified')
    expect(await unverified.getByRole('alert').textContent()).toContain('has not verified your e-mail address')
  })

  it('becomes a user of the default role where the settings create users, for the domains named there', async () => {
    const page = await signInWith('open', 'Open <i>', 'created')
    expect(await shown(page)).toContain('new@company.example, editor')
    expect(await usersOf('new@company.example')).toMatchObject([{ name: 'New <b>', role: 'editor', tier: 'system' }])
    await browser.context.clearCookies()
    const refused = await signInWith('open', 'Open <i>', 'foreign')
    expect(await refused.getByRole('alert').textContent()).toContain('This e-mail address may not sign in')
    const attempts = (await cli('users', 'attempts'))['attempts'] as Row[]
    const of = (email: string) => attempts.filter((attempt) => attempt['email'] === email)
    expect(of('new@company.example')).toMatchObject([{ outcome: 'signed_in' }])
    expect(of('new@other.example')).toMatchObject([{ outcome: 'refused' }])
  })

  it('goes on to the client that asked for access', async () => {
    await signInWith('company', 'Company', 'known')
    await browser.context.clearCookies()
    const query = 'response_type=code&client_id=nobody&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2F&state=s&other=1'
    const page = await browser.context.newPage()
    await page.goto(at(`/sign-in?${query}`))
    await page.getByRole('link', { name: 'Sign in with Company' }).click()
    await page.locator('[name=login]').fill('known')
    await page.locator('[name=password]').fill('anything')
    await page.locator('[type=submit]').click()
    const asked = page.waitForRequest((request) => request.url().startsWith(at('/auth/oauth2/authorize')))
    await page.getByRole('button', { name: 'Continue' }).click()
    const { searchParams } = new URL((await asked).url())
    expect(Object.fromEntries(searchParams)).toMatchObject({ client_id: 'nobody', state: 's' })
    expect(searchParams.has('other')).toBe(false)
  })
})

describe('a provider', () => {
  it('that does not answer holds up nobody, and one without its secret is not offered', async () => {
    const gone = await fetch(at('/sign-in/provider/gone'), { redirect: 'manual' })
    expect(gone.status).toBe(502)
    expect(await gone.text()).toContain('returned an unexpected answer')
    const page = await (await fetch(at('/sign-in'))).text()
    expect(page).toContain('Sign in with Open &lt;i&gt;')
    expect(page).not.toContain('Unset')
    expect((await fetch(at('/sign-in/provider/unset'), { redirect: 'manual' })).status).toBe(404)
  })

  it('is believed only in answer to a sign-in that this browser began', async () => {
    const forged = await fetch(at('/auth/callback/company?code=x&state=y'), { redirect: 'manual' })
    expect(forged.status).toBe(401)
    expect(forged.headers.getSetCookie().join()).not.toContain('session_token=')
  })
})
