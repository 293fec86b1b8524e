import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import type { Page, Response } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { castellanJson, newPerson, PASSWORD, type Row } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What holds for every page that a person sees, whatever others have written into it: on a telephone, in a real browser. */
const WIDTH = 390
let server: ServerHere
let browser: Awaited<ReturnType<typeof openChromium>>
let page: Page
const complaints: string[] = []
const asked: string[] = []

beforeAll(async () => {
  const dataDir = newDataDir()
  const provider = { issuer: 'https://login.example.com', client_id: 'x' }
  const names = ['Company', 'W'.repeat(64), '<b>&"\'</b> 名'.repeat(3)]
  const oidc_providers = names.map((name, index) => ({ id: `p${index}`, name, ...provider }))
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ oidc_providers }))
  server = await startServerHere({ dataDir })
  browser = await openChromium()
  page = await browser.context.newPage()
  await page.setViewportSize({ width: WIDTH, height: 800 })
  page.on('console', (message) => complaints.push(message.text()))
  page.on('request', (request) => asked.push(request.url()))
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

const at = (path: string): string => new URL(path, server.url).href
const ownPath = (link: unknown): string => new URL(String(link)).pathname
const call = async (tool: string, args: object): Promise<Row> => {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(at(`/v1/tools/${tool}`), { method: 'POST', headers, body: JSON.stringify(args) })
  return (await response.json()) as Row
}

/** Run in the page: what a person could not read, reach or tell. */
const findProblems = `(() => {
  const problems = []
  const root = document.documentElement
  if (root.scrollWidth > ${WIDTH}) problems.push('it is ' + root.scrollWidth + ' wide')
  if (parseFloat(getComputedStyle(document.body).fontSize) < 16) problems.push('its text is small')
  for (const element of document.querySelectorAll('main *')) {
    const box = element.getBoundingClientRect()
    if (box.width > 0 && (box.left < 0 || box.right > ${WIDTH})) problems.push(element.tagName + ' sticks out')
    if (element.matches('script, iframe, img, object, embed, [style], [onclick], b, i')) problems.push(element.tagName + ' is none of ours')
  }
  for (const control of document.querySelectorAll('button, .button, input:not([type=hidden])')) {
    if (control.getBoundingClientRect().height < 40) problems.push(control.outerHTML + ' is too small for a finger')
  }
  for (const input of document.querySelectorAll('input:not([type=hidden])')) {
    if (input.labels.length !== 1) problems.push(input.name + ' has no label')
  }
  if (document.querySelectorAll('h1').length !== 1 || document.documentElement.lang !== 'en') problems.push('it has no heading or language')
  return problems
})()`

const strictPolicy =
  /^default-src 'none'; (?:script-src 'sha256-[A-Za-z0-9+/]{43}='; connect-src 'self'; )?style-src 'sha256-[A-Za-z0-9+/]{43}='; form-action 'self'(?: [a-z][a-z0-9+.-]*:(?:\/\/[a-z0-9.:[\]-]+)?)?; frame-ancestors 'none'; base-uri 'none'$/

async function expectReadable(response: Response | null, status = 200): Promise<void> {
  expect(response!.status()).toBe(status)
  const headers = response!.headers()
  expect(headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': expect.stringMatching(strictPolicy),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'same-origin',
  })
  expect([page.url(), await page.evaluate(findProblems)]).toEqual([page.url(), []])
  // A browser reports a page that is no success, and nothing else: no policy is broken, and nothing is fetched from elsewhere.
  expect(complaints.splice(0).filter((text) => !text.includes('the server responded with a status of'))).toEqual([])
  const origin = new URL(server.url).origin
  expect(asked.splice(0).filter((url) => new URL(url).origin !== origin)).toEqual([])
}

/** Text as others may write it: markup, long words, other scripts and controls of direction, and whatever else. */
const examples: [string][] = [
  ['<b>x</b><script>alert(1)</script>"\'&'],
  ['W'.repeat(100)],
  [`\u202Egnitirw ti\u2066${'漢'.repeat(60)}`],
]
const others = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 100 }).filter((text) => text.trim() !== '')
const runs = { numRuns: 8, seed: 20_261_117, examples }

describe('every page', () => {
  it('for signing in is readable, also after a failure and without a session', async () => {
    await expectReadable(await page.goto(at('/sign-in')))
    await expectReadable(
      await page.goto(at(`/sign-in?client_id=${'x'.repeat(500)}&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2F`)),
    )
    await expectReadable(await page.goto(at('/account')))
    await page.getByLabel('E-mail address').fill(`${'w'.repeat(60)}@${'long.'.repeat(20)}example.com`)
    await page.getByLabel('Password').fill('not the password')
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.request().method() === 'POST'),
      page.getByRole('button', { name: 'Sign in', exact: true }).click(),
    ])
    await page.waitForLoadState()
    await expectReadable(answer, 401)
  })

  it('that says that something is wrong is readable', async () => {
    await expectReadable(await page.goto(at(`/invitation/${'x'.repeat(43)}`)), 404)
    await expectReadable(await page.goto(at(`/secrets/${'x'.repeat(43)}`)), 404)
    await expectReadable(await page.goto(at('/auth/error?error=invalid_client&error_description=%3Cb%3Ex')), 400)
    await expectReadable(await page.goto(at('/auth/callback/p0?code=x&state=y')), 502)
    await expectReadable(await page.goto(at('/sign-in/provider/none')), 404)
  })

  it('of the server itself is readable, and so is an address where nothing is', async () => {
    const response = await page.goto(at('/'))
    expect([response!.status(), await page.evaluate(findProblems)]).toEqual([200, []])
    complaints.splice(0)
    for (const [path, status] of [
      [`/${'nowhere'.repeat(20)}`, 404],
      ['/v1/banana/chat/completions', 404],
      ['/v1/tools/task_list', 405],
      ['/mcp/none', 404],
    ] as const) {
      await expectReadable(await page.goto(at(path)), status)
    }
    await page.getByRole('link', { name: 'The addresses of this server' }).click()
    await page.waitForURL(at('/'))
  })

  it('for an invitation is readable, before and after', async () => {
    const email = `${'w'.repeat(64)}@${'long.'.repeat(30)}example.com`
    const { link } = await castellanJson(server, ['invite', 'create', email])
    await expectReadable(await page.goto(at(ownPath(link))))
    expect(await page.textContent('body')).toContain('owner invites you to the organisation local.')
    // A password manager stores the new password for this name.
    expect(await page.locator('input[autocomplete=username]').inputValue()).toBe(email)
    await page.getByLabel('Your name').fill('W'.repeat(128))
    await page.locator('[name=password]').fill(PASSWORD)
    await page.locator('[name=again]').fill(PASSWORD)
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.request().method() === 'POST'),
      page.getByRole('button', { name: 'Join' }).click(),
    ])
    await page.waitForLoadState()
    await expectReadable(answer)
  })

  it('for a secret is readable, whatever it is said to be for', async () => {
    await fc.assert(
      fc.asyncProperty(others, async (purpose) => {
        const { url } = await call('secret_link_create', { purpose })
        await expectReadable(await page.goto(at(ownPath(url))))
      }),
      runs,
    )
  })

  it('for consent is readable, whatever the client calls itself', async () => {
    const ada = await newPerson(server, 'ada@example.com')
    await page.goto(at('/sign-in'))
    await page.getByLabel('E-mail address').fill(ada.email)
    await page.getByLabel('Password').fill(ada.password)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.waitForURL('**/account')
    await fc.assert(
      fc.asyncProperty(others, async (client_name) => {
        const redirect = `http://127.0.0.1:9/${'path'.repeat(40)}`
        const registered = await fetch(at('/auth/oauth2/register'), {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ client_name, redirect_uris: [redirect], token_endpoint_auth_method: 'none' }),
        })
        const { client_id } = (await registered.json()) as { client_id: string }
        const query = new URLSearchParams({
          ...{ response_type: 'code', client_id, redirect_uri: redirect, state: 's' },
          ...{ code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM', code_challenge_method: 'S256' },
        })
        const response = await page.goto(at(`/auth/oauth2/authorize?${query}`))
        expect(await page.title()).toContain('Allow access?')
        asked.splice(0)
        await expectReadable(response)
      }),
      runs,
    )
  })
})
