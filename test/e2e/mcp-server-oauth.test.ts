import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { castellanJson, newPerson, type Row, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * A castellan behind a castellan, both with people: a user of the first lets it act for her at the second, in a real browser. The two
 * have different names, since browsers share cookies between the ports of one.
 */
let front: ServerHere
let behind: ServerHere
let behindUrl = ''
let browser: Awaited<ReturnType<typeof openChromium>>
let ada: Awaited<ReturnType<typeof newPerson>>
let cookie = ''

const serverWithPeople = async (settings = ''): Promise<ServerHere> => {
  const dataDir = newDataDir()
  writeFileSync(join(dataDir, 'castellan.yaml'), `require_keys: true\n${settings}`)
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  return await startServerHere({ dataDir, args: ['--tools', 'full'] })
}

beforeAll(async () => {
  behind = await serverWithPeople()
  behindUrl = behind.url.replace('127.0.0.1', 'localhost')
  front = await serverWithPeople('web: { allow_private_addresses: ["127.0.0.1", "::1"] }\n')
  browser = await openChromium()
  ada = await newPerson(front, 'ada@example.com', ['--role', 'editor'])
  await newPerson(behind, 'ada@example.com', ['--role', 'editor'])
  cookie = await signIn(front, ada)
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  for (const server of [front, behind]) {
    await server.stop()
    rmSync(server.dataDir, { recursive: true, force: true })
  }
})

async function ask(tool: string, args: object): Promise<Row> {
  const headers = { 'content-type': 'application/json', origin: new URL(front.url).origin, cookie }
  const response = await fetch(new URL(`/v1/tools/${tool}`, front.url), {
    method: 'POST',
    headers,
    body: JSON.stringify(args),
  })
  const answer = (await response.json()) as Row
  expect([tool, response.status, answer]).toEqual([tool, 200, answer])
  return answer
}
const deployments = async () => (await ask('list_mcp_server_deployments', {}))['deployments'] as Row[]

async function signInAt(page: Awaited<ReturnType<typeof browser.context.newPage>>): Promise<void> {
  await page.getByLabel('E-mail address').fill(ada.email)
  await page.getByLabel('Password').fill(ada.password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForLoadState()
}

test('a person signs in at the server behind, and its tools act as that person there', {
  timeout: 180_000,
}, async () => {
  await ask('create_mcp_server', { name: 'Behind', serverUrl: behindUrl })
  const deployed = await ask('deploy_mcp_server', { catalogId: 'Behind' })
  expect(deployed).toMatchObject({ status: 'pending', needsAuthorization: true })
  const [shown] = await deployments()
  expect(shown).toMatchObject({
    authorizeUrl: `${new URL(front.url).origin}/mcp-servers/${String(deployed['id'])}/authorize`,
  })

  const page = await browser.context.newPage()
  await page.setViewportSize({ width: 390, height: 800 })
  // The link is Ada's: nobody else gets beyond it.
  await page.goto(String((deployed['link'] as Row)['url']))
  expect(await page.title()).toContain('Sign in first')
  await page.goto(new URL('/sign-in', front.url).href)
  await signInAt(page)
  await page.goto(String(shown!['authorizeUrl']))
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.waitForLoadState()
  expect(await page.locator('main').textContent()).toContain('let ada@example.com use Behind')
  await page.getByRole('link', { name: 'Continue to localhost' }).click()
  await page.waitForLoadState()
  await signInAt(page)
  await page.getByRole('button', { name: 'Allow', exact: true }).click()
  await page.waitForURL(/mcp-callback/)
  expect(await page.locator('main').textContent()).toContain('Behind may now be used')
  await expect.poll(async () => (await deployments())[0]).toMatchObject({ status: 'success', error: null })

  expect(await ask('behind__whoami', {})).toMatchObject({ kind: 'user' })
  await page.close()
})
