import type { CDPSession, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { castellanJson, newPerson, PASSWORD, type Row } from '../support/people.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Passkeys in a real browser, with the browser's own virtual authenticator in place of a device. */
let server: ServerHere
let browser: Awaited<ReturnType<typeof openChromium>>
let page: Page
let cdp: CDPSession
let authenticatorId: string
const email = 'ann@example.com'

beforeAll(async () => {
  server = await startServerHere()
  await newPerson(server, email)
  browser = await openChromium()
  page = await browser.context.newPage()
  await page.setViewportSize({ width: 390, height: 800 })
  cdp = await browser.context.newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  const options = {
    protocol: 'ctap2' as const,
    transport: 'internal' as const,
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true,
  }
  authenticatorId = (await cdp.send('WebAuthn.addVirtualAuthenticator', { options })).authenticatorId
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await server.stop()
})

/** A passkey is for a name, and no address has one. */
const at = (path: string): string => {
  const url = new URL(path, server.url)
  url.hostname = 'localhost'
  return url.href
}
const signOut = async () => {
  await page.goto(at('/account'))
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.waitForURL(at('/sign-in'))
}
const passkeysListed = async () =>
  ((await castellanJson(server, ['users', 'sessions', email]))['sessions'] as Row[]).filter(
    ({ kind }) => kind === 'passkey',
  )
const passkeyButton = () => page.getByRole('button', { name: 'Sign in with a passkey' })
const problem = () => page.locator('form[data-passkey] [role=alert]').textContent()

it('is added by a person who signed in, and signs them in from then on', { timeout: 240_000 }, async () => {
  await page.goto(at('/sign-in'))
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForURL(at('/account'))

  // A device that did not verify the person proves nothing.
  await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
  await page.getByLabel('Name of a new passkey').fill('Laptop')
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.locator('form[data-passkey] [role=alert]:not([hidden])').waitFor()
  await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true })

  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByRole('button', { name: 'Remove Laptop' }).waitFor()
  await signOut()
  await passkeyButton().click()
  await page.waitForURL(at('/account'))
  expect(await page.textContent('main')).toContain(email)
  const { attempts } = (await castellanJson(server, ['users', 'attempts'])) as { attempts: Row[] }
  expect(attempts[0]).toMatchObject({ email, outcome: 'signed_in' })
  // Administrators see that it was added, and which there are.
  expect(attempts.map(({ outcome }) => outcome)).toContain('passkey_added')
  expect(await passkeysListed()).toMatchObject([{ name: 'Laptop', user: email }])

  // The answer of a device that did not verify the person is refused, though the key is right.
  await signOut()
  await page.route('**/passkey/sign-in/options', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...(await response.json()), userVerification: 'discouraged' } })
  })
  await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
  await passkeyButton().click()
  await page.locator('form[data-passkey] [role=alert]:not([hidden])').waitFor()
  expect(await problem()).toContain('unknown or could not be verified')
  await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true })
  await page.unroute('**/passkey/sign-in/options')

  // Removed, it is worth nothing.
  await passkeyButton().click()
  await page.waitForURL(at('/account'))
  await page.getByRole('button', { name: 'Remove Laptop' }).click()
  await page.waitForLoadState()
  expect(await page.getByRole('button', { name: 'Remove Laptop' }).count()).toBe(0)
  await signOut()
  await passkeyButton().click()
  await page.locator('form[data-passkey] [role=alert]:not([hidden])').waitFor()
  expect(await problem()).toContain('unknown or could not be verified')
  const after = (await castellanJson(server, ['users', 'attempts'])) as { attempts: Row[] }
  expect(after.attempts.map(({ outcome }) => outcome)).toContain('passkey_removed')
  expect(await passkeysListed()).toEqual([])
})

it('is removed by an administrator, and is worth nothing then', { timeout: 120_000 }, async () => {
  await page.goto(at('/sign-in'))
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForURL(at('/account'))
  await page.getByLabel('Name of a new passkey').fill('Phone')
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByRole('button', { name: 'Remove Phone' }).waitFor()
  const [phone] = await passkeysListed()
  await castellanJson(server, ['users', 'revoke', email, String(phone!['id'])])
  expect(await passkeysListed()).toEqual([])
  await signOut()
  await passkeyButton().click()
  await page.locator('form[data-passkey] [role=alert]:not([hidden])').waitFor()
  expect(await problem()).toContain('unknown or could not be verified')
})

it('is not offered at an IP address, where no browser allows one, and the page says where it is', async () => {
  // A program's sign-in has a long query, which is kept but not shown.
  await page.goto(new URL('/sign-in?client_id=a&resource=b', server.url).href)
  const elsewhere = page.getByRole('link', { name: at('/sign-in'), exact: true })
  expect(await elsewhere.getAttribute('href')).toBe(at('/sign-in?client_id=a&resource=b'))
  await page.goto(new URL('/sign-in', server.url).href)
  expect(await passkeyButton().count()).toBe(0)
  expect(await page.getByRole('link', { name: /localhost/ }).getAttribute('href')).toBe(at('/sign-in'))
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForURL(new URL('/account', server.url).href)
  expect(await page.getByRole('button', { name: 'Add a passkey' }).count()).toBe(0)
  expect(await page.getByRole('link', { name: /localhost/ }).getAttribute('href')).toBe(at('/account'))
})

it('that is refused by the browser is told in our words', { timeout: 120_000 }, async () => {
  await page.goto(at('/sign-in'))
  for (const [name, words] of [
    ['NotAllowedError', /^No passkey was used: /],
    ['SecurityError', /^The browser allows no passkeys at this address/],
    ['UnknownError', /^The browser could not use a passkey \(UnknownError\)/],
  ] as const) {
    const refusal = `new DOMException('See: https://www.w3.org/TR/webauthn-2/', '${name}')`
    await page.evaluate(`navigator.credentials.get = () => Promise.reject(${refusal})`)
    await passkeyButton().click()
    await expect.poll(problem).toMatch(words)
    expect(await problem()).not.toContain('w3.org')
  }
  await page.route('**/passkey/sign-in/options', (route) => route.abort())
  await passkeyButton().click()
  await expect.poll(problem).toMatch(/^The server cannot be reached/)
  await page.unroute('**/passkey/sign-in/options')
})

it('cannot be added or used without the page: no session, no challenge, no foreign origin', async () => {
  const post = (path: string, body: object, headers: Record<string, string> = {}) =>
    fetch(new URL(path, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
  expect((await post('/passkey/register/options', {})).status).toBe(401)
  expect((await post('/passkey/register', { response: {}, name: 'x' })).status).toBe(401)
  expect((await post('/passkey/sign-in', { response: { id: 'x' } })).status).toBe(401)
  expect((await post('/passkey/sign-in', {})).status).toBe(400)
  expect((await post('/passkey/sign-in/options', {}, { origin: 'https://elsewhere.example' })).status).toBe(403)
})
