import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { openRecordingRelay, type RecordingRelay } from '../support/recording-relay.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'
import { answer, serveWeb, type WebServer } from '../support/web-server.ts'

/**
 * What pages may do to the server through the browser of the person who is its owner. The browser is a real one, since what
 * it sends by itself (Origin, Sec-Fetch-Site, preflights) is what the defence stands on.
 */
type Row = Record<string, unknown>
let browser: Awaited<ReturnType<typeof openChromium>>
let pages: WebServer
let server: ServerHere
let welcoming: ServerHere
/** In front of the server: a browser does not tell what a preflight or a refused answer was. */
let relay: RecordingRelay

beforeAll(async () => {
  pages = await serveWeb({ '/': answer('<!doctype html><title>page</title>', 'text/html') })
  server = await startServerHere()
  relay = await openRecordingRelay(Number(new URL(server.url).port))
  const allowed = { CASTELLAN_ALLOWED_ORIGINS: pages.at('', 'localhost') }
  welcoming = await startServerHere({ env: allowed })
  browser = await openChromium()
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await relay[Symbol.asyncDispose]()
  await server.stop()
  await welcoming.stop()
  await pages[Symbol.asyncDispose]()
})

async function call(tool: string, args: object, secret?: string): Promise<Row> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(secret && { authorization: `Bearer ${secret}` }) },
    body: JSON.stringify(args),
  })
  const body = (await response.json()) as Row
  if (!response.ok) throw new Error(`${tool}: ${JSON.stringify(body)}`)
  return body
}

const originOf = ({ url }: ServerHere): string => new URL(url).origin
const keyNames = async () => ((await call('api_key_list', {}))['keys'] as Row[]).map(({ name }) => name)
const taskTitles = async () => ((await call('task_list', {}))['tasks'] as Row[]).map(({ title }) => title)
describe('a page that a workspace serves on a forwarded port', () => {
  it('does not become the owner', async () => {
    const { secret } = await call('api_key_create', { name: 'guest', role: 'member', tier: 'user', tenant: 'guests' })
    const asGuest = (tool: string, args: object) => call(tool, args, String(secret))
    const { workspace_id } = await asGuest('workspace_create', { name: 'site' })
    const attack = `
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify({ name: 'stolen', role: 'admin', tier: 'operator' })
      fetch('${originOf(server)}/v1/tools/api_key_create', { method: 'POST', headers, body })
        .then((response) => response.text())
        .then((text) => { document.title = 'got ' + text }, (error) => { document.title = 'failed ' + error })`
    const content = `<!doctype html><title>wait</title><script>${attack}</script>`
    await asGuest('file_write', { workspace_id, path: '/workspace/index.html', content })
    const command = 'exec python3 -m http.server 8000 --directory /workspace'
    await asGuest('exec_background', { workspace_id, action: 'start', command })
    const { host_port } = await asGuest('port_forward', { workspace_id, action: 'add', guest_port: 8000 })
    const served = `http://127.0.0.1:${host_port}/`
    await expect.poll(async () => (await fetch(served).catch(() => undefined))?.status).toBe(200)

    for (const name of ['127.0.0.1', 'localhost']) {
      const page = await browser.context.newPage()
      await page.goto(`http://${name}:${host_port}/`)
      await page.waitForFunction('document.title !== "wait"')
      expect(await page.title()).toMatch(/^failed TypeError/)
      await page.close()
    }
    expect(await keyNames()).not.toContain('stolen')
  })
})

/** Ways in which a page makes the browser ask the server for something; each is over when the browser has its answer. */
const MAKE_TASK = '/v1/tools/task_create'
const LIST = '/v1/agents'
const sending = (url: string, title: string): string => {
  const body = JSON.stringify(JSON.stringify({ title, project: 'p' }))
  return `fetch('${url}', { method: 'POST', headers: { 'content-type': 'application/json' }, body: ${body} })`
}
/** What a page waits for that is an element, or has events like one. */
const untilEvent = (made: string, events: readonly string[], then = ''): string =>
  `new Promise((resolve) => { const it = ${made}; ${events.map((name) => `it.on${name} = resolve`).join('; ')}; ${then} })`
const scripts: Readonly<Record<string, (at: string) => string>> = {
  'fetch with JSON, after a preflight': (at) => sending(`${at}${MAKE_TASK}`, 'fetched'),
  'fetch without CORS, as text': (at) =>
    `fetch('${at}${MAKE_TASK}', { method: 'POST', mode: 'no-cors', body: '{"title":"plain","project":"p"}' })`,
  'fetch without CORS, without a body or a referrer': (at) =>
    `fetch('${at}/v1/tools/server_ping', { method: 'POST', mode: 'no-cors', referrerPolicy: 'no-referrer' })`,
  'fetch of a list': (at) => `fetch('${at}${LIST}')`,
  'an image that is a list': (at) =>
    untilEvent('new Image()', ['load', 'error'], `it.referrerPolicy = 'no-referrer'; it.src = '${at}${LIST}'`),
  'a frame that is a list': (at) =>
    untilEvent("document.createElement('iframe')", ['load'], `it.src = '${at}${LIST}'; document.body.append(it)`),
  'a sandboxed frame, which has no origin': (at) => {
    const inner = `${sending(`${at}${MAKE_TASK}`, 'sandboxed')}.finally(() => parent.postMessage('', '*'))`
    const content = JSON.stringify(`<script>${inner}</script>`)
    const frame = `const frame = document.createElement('iframe'); frame.sandbox.add('allow-scripts')`
    return untilEvent('self', ['message'], `${frame}; frame.srcdoc = ${content}; document.body.append(frame)`)
  },
  'a call over MCP': (at) => sending(`${at}/mcp`, 'mcp'),
  'a stream of MCP': (at) => untilEvent(`new EventSource('${at}/mcp')`, ['error', 'open']),
  'a web socket': (at) => untilEvent(`new WebSocket('${at.replace('http:', 'ws:')}${LIST}')`, ['error', 'open']),
  'the list of SEAL': (at) => `fetch('${at}/v1/seal/tools', { mode: 'no-cors' })`,
}
/** What leaves the page. */
const departures: Readonly<Record<string, (at: string) => string>> = {
  'a link to a list': (at) => `<a id="go" href="${at}${LIST}">here</a>`,
  'a form': (at) =>
    `<form method="post" enctype="text/plain" action="${at}${MAKE_TASK}">
      <input name='{"title":"form","project":"p","x":"' value='"}'><button id="go">send</button></form>`,
}

async function attempt(page: Page, how: string, at: string): Promise<void> {
  const script = scripts[how]
  if (script !== undefined) {
    await page.evaluate(`Promise.resolve(${script(at)}).then(() => {}, () => {})`)
    return
  }
  await page.setContent(departures[how]!(at))
  await Promise.all([page.waitForNavigation(), page.click('#go')])
}

describe('a page of another port', () => {
  const locations = [
    ['the same name', '127.0.0.1', '127.0.0.1'],
    ['the same name, localhost', 'localhost', 'localhost'],
    ['another name of this machine', 'localhost', '127.0.0.1'],
    ['a name below localhost', 'site.localhost', 'localhost'],
  ] as const
  const cases = locations.flatMap(([what, from, to]) =>
    Object.keys({ ...scripts, ...departures }).map((how) => [how, what, from, to] as const),
  )

  it.each(cases)('is refused: %s, from %s', async (how, _, from, to) => {
    const before = await taskTitles()
    const page = await browser.context.newPage()
    await page.goto(pages.at('/', from))
    relay.forget()
    await attempt(page, how, `http://${to}:${relay.port}`)
    // What is shown, a refusal too, has an icon that the browser asks for; there is none.
    expect(new Set(relay.statuses().filter((status) => status !== 404))).toEqual(new Set([403]))
    await page.close()
    expect(await taskTitles()).toEqual(before)
  })

  it('may lead to what is for everybody', async () => {
    const page = await browser.context.newPage()
    await page.goto(pages.at('/', 'localhost'))
    await page.setContent(`<a id="go" href="${originOf(server)}/">here</a>`)
    await Promise.all([page.waitForNavigation(), page.click('#go')])
    expect(await page.title()).toBe('Castellan')
    await page.close()
  })
})

describe('a page that may', () => {
  const ping = (page: Page, url: string) =>
    page.evaluate(async (at) => {
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${at}/v1/tools/server_ping`, { method: 'POST', headers, body: '{}' })
      return response.status
    }, url)

  it.each(['127.0.0.1', 'localhost'])('is one of the server itself, at %s', async (name) => {
    const at = `http://${name}:${relay.port}`
    const page = await browser.context.newPage()
    await page.goto(`${at}/health`)
    expect(await ping(page, at)).toBe(200)
    expect(await page.evaluate(async (url) => (await fetch(url)).status, `${at}/v1/agents`)).toBe(200)
    await page.close()
  })

  it('is one of allowed_origins, and it can speak MCP', async () => {
    const page = await browser.context.newPage()
    await page.goto(pages.at('/', 'localhost'))
    expect(await ping(page, originOf(welcoming))).toBe(200)
    const session = await page.evaluate(async (url) => {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 0,
          method: 'initialize',
          params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'page', version: '1' } },
        }),
      })
      return response.headers.get('mcp-session-id')
    }, welcoming.url)
    expect(session).toMatch(/.{20}/)
    await page.goto(pages.at('/', '127.0.0.1'))
    await expect(ping(page, originOf(welcoming))).rejects.toThrow('Failed to fetch')
    await page.close()
  })
})
