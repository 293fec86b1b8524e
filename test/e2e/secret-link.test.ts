import { rmSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type CastellanClient, startClient } from '../support/castellan-client.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { openChromium } from '../support/chromium.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** The page that takes a secret once, in a real browser, behind the real program. */
const PURPOSE = 'Token of <b>GitHub</b> & "others"'
const VALUE = 'ghp_secret-value-0123456789'

let browser: Awaited<ReturnType<typeof openChromium>>
let server: ServerHere
beforeAll(async () => {
  browser = await openChromium()
})
afterAll(() => browser[Symbol.asyncDispose]())

type Link = { reference: string; url: string }

async function call(tool: string, args: object): Promise<Record<string, unknown>> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  const body = (await response.json()) as Record<string, unknown>
  if (!response.ok) throw new Error(JSON.stringify(body))
  return body
}
const newLink = async () => (await call('secret_link_create', { purpose: PURPOSE })) as Link
const isEntered = async ({ reference }: Link) =>
  ((await call('secret_list', {}))['secrets'] as { id: string; entered: boolean }[]).find(
    ({ id }) => reference === `secret:${id}`,
  )?.entered

describe('the page of a link', () => {
  beforeEach(async () => {
    server = await startServerHere()
  })
  afterEach(() => server.stop())

  it('takes what a person enters, once, and is readable on a telephone', async () => {
    const link = await newLink()
    expect(new URL(link.url).origin).toBe(new URL(server.url).origin)
    const page = await browser.context.newPage()
    const complaints: string[] = []
    page.on('console', (message) => complaints.push(message.text()))
    await page.setViewportSize({ width: 390, height: 844 })
    await page.goto(link.url)
    expect(await page.textContent('h1')).toBe(PURPOSE)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390)
    expect(await page.evaluate("getComputedStyle(document.querySelector('button')).width")).not.toBe('auto')
    expect(await page.getAttribute('input', 'type')).toBe('password')
    await page.fill('input', VALUE)
    await Promise.all([page.waitForNavigation(), page.click('button')])
    expect(await page.textContent('h1')).toBe('Saved')
    expect(await page.content()).not.toContain(VALUE)
    expect(await isEntered(link)).toBe(true)
    const again = await page.goto(link.url)
    expect([again?.status(), await page.textContent('h1')]).toEqual([404, 'This link cannot be used'])
    // What the policy of the page refuses, the browser says on its console; the icon that it asks for is not there.
    expect(complaints.filter((text) => !text.includes('404'))).toEqual([])
    await page.close()
  })

  it('has a strict policy, and does not work as a part of another page', async () => {
    const { url } = await newLink()
    const response = await fetch(url)
    const policy = response.headers.get('content-security-policy')!
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; frame-ancestors 'none'/)
    expect(policy).not.toContain('unsafe')
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(await response.text()).not.toContain('<b>GitHub')
    const foreign = { origin: 'http://evil.example', 'content-type': 'application/x-www-form-urlencoded' }
    const sent = await fetch(url, { method: 'POST', headers: foreign, body: `value=${VALUE}` })
    expect(sent.status).toBe(403)
    const twice = { method: 'POST', headers: { 'content-type': foreign['content-type'] } }
    expect((await fetch(url, { ...twice, body: 'value=1&value=2' })).status).toBe(400)
    expect((await fetch(url, { ...twice, body: 'value=' })).status).toBe(400)
    expect((await fetch(url, { ...twice, body: `value=${VALUE}` })).status).toBe(200)
  })

  it('promises that no model sees a value, but not of what the page publishes', async () => {
    const promise = 'No model and no log sees it'
    expect(await (await fetch((await newLink()).url)).text()).toContain(promise)
    const { link } = (await call('create_mcp_server_installation_request', {})) as { link: { url: string } }
    const asking = await (await fetch(link.url)).text()
    expect(asking).not.toContain(promise)
    expect(asking).toContain('Administrators see what you enter')
  })

  it('opens from a link in a third-party page', async () => {
    const { url } = await newLink()
    const page = await browser.context.newPage()
    await page.goto(`${new URL(server.url).origin.replace('127.0.0.1', 'localhost')}/health`)
    await page.setContent(`<a id="go" href="${url}">enter it</a>`)
    await Promise.all([page.waitForNavigation(), page.click('#go')])
    expect(await page.textContent('h1')).toBe(PURPOSE)
    await page.fill('input', VALUE)
    await Promise.all([page.waitForNavigation(), page.click('button')])
    expect(await page.textContent('h1')).toBe('Saved')
    await page.close()
  })
})

describe('a link that the command line asks for', () => {
  const createIn = async (dataDir: string) => {
    const args = ['call', 'secret_link_create', `purpose=${PURPOSE}`, '--json', '--data-dir', dataDir]
    const run = await runCastellanHere(args, { home: dataDir })
    return { link: JSON.parse(run.stdout) as Link, stderr: run.stderr }
  }
  const enter = (url: string) => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    return fetch(url, { method: 'POST', headers, body: `value=${VALUE}` })
  }

  it('leads to the running server', async () => {
    server = await startServerHere()
    const { link, stderr } = await createIn(server.dataDir)
    expect([new URL(link.url).origin, stderr]).toEqual([new URL(server.url).origin, ''])
    expect((await enter(link.url)).status).toBe(200)
    await server.stop()
  })

  it('leads to the server that runs next, and says so', async () => {
    const dataDir = newDataDir()
    const { link, stderr } = await createIn(dataDir)
    expect(stderr).toContain('The link works only while castellan serve runs at http://127.0.0.1:7433;')
    expect(new URL(link.url).origin).toBe('http://127.0.0.1:7433')
    server = await startServerHere({ dataDir })
    const there = new URL(new URL(link.url).pathname, server.url).href
    expect((await enter(there)).status).toBe(200)
    expect(await isEntered(link)).toBe(true)
    await server.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
})

describe('a server without a port', () => {
  let client: CastellanClient
  let dataDir = ''
  beforeEach(async () => {
    dataDir = newDataDir()
    client = await startClient({ dataDir })
  })
  afterEach(async () => {
    client.endInput()
    await client.ended
    rmSync(dataDir, { recursive: true, force: true })
  })

  it('opens one for the page, and for nothing else', async () => {
    const made = await client.call('secret_link_create', { purpose: PURPOSE })
    if (made.kind !== 'done') throw new Error(JSON.stringify(made))
    const { url } = made.answer as Link
    expect(new URL(url).hostname).toBe('127.0.0.1')
    for (const path of ['/', '/mcp', '/v1/tools', '/secrets/none-of-ours-0123456789']) {
      expect((await fetch(new URL(path, url))).status).toBe(404)
    }
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    expect((await fetch(url, { method: 'POST', headers, body: `value=${VALUE}` })).status).toBe(200)
    const run = await runCastellanHere(['secrets', 'list', '--data-dir', dataDir, '--json'], { home: dataDir })
    expect(JSON.parse(run.stdout)).toMatchObject({ secrets: [{ purpose: PURPOSE, entered: true }] })
    const rotated = await runCastellanHere(['secrets', 'rotate', '--data-dir', dataDir], { home: dataDir })
    expect([rotated.code, rotated.stdout]).toEqual([0, expect.stringMatching(/^1 secret is encrypted with the key /)])
  })
})
