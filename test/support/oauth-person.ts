import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { BrowserContext, Page } from 'playwright-core'

export type Person = Readonly<{ email: string; password: string }>

/**
 * A person who uses a program on their machine that asks for access: the program's own address for the answer, and the browser in
 * which the person signs in and decides.
 */
export type OauthPerson = AsyncDisposable &
  Readonly<{
    redirectUrl: string
    /** Goes to the address that the program opens, signs in if asked to, and answers. Resolves with what the program is sent. */
    answer(authorizationUrl: URL, decision?: Decision): Promise<URLSearchParams>
  }>

type Decision = 'Allow' | 'Do not allow'

/** On a page that a program led to: signs in if asked to, and answers if asked to. */
export async function letIn(page: Page, person: Person, decision: Decision = 'Allow'): Promise<void> {
  if ((await page.title()).startsWith('Sign in')) {
    await page.getByLabel('E-mail address').fill(person.email)
    await page.getByLabel('Password').fill(person.password)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.waitForLoadState()
  }
  if ((await page.title()).startsWith('Allow access?')) {
    await page.getByRole('button', { name: decision, exact: true }).click()
  }
}

export async function openOauthPerson(browser: BrowserContext, person: Person): Promise<OauthPerson> {
  let received = Promise.withResolvers<URLSearchParams>()
  const server = createServer((req, res) => {
    res
      .writeHead(200, { 'content-type': 'text/html' })
      .end('<!doctype html><title>back</title>You can close this page.')
    const { pathname, searchParams } = new URL(req.url!, 'http://program')
    if (pathname === '/callback') received.resolve(searchParams)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    redirectUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`,
    async answer(authorizationUrl, decision = 'Allow') {
      received = Promise.withResolvers()
      const page = await browser.newPage()
      await page.setViewportSize({ width: 390, height: 800 })
      await page.goto(authorizationUrl.href)
      await letIn(page, person, decision)
      const answered = await received.promise
      await page.close()
      return answered
    },
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}
