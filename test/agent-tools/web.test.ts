import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import type { Capability } from '../../src/contract/security-context.ts'
import { type Answer, callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { article, brave, duckDuckGo, searxng, tavily } from '../support/search-pages.ts'
import { answer, type Route, redirect, serveWeb, type WebServer } from '../support/web-server.ts'

const json = (value: unknown) => answer(JSON.stringify(value), 'application/json')
const deep = `<html><body>${'<div>'.repeat(60_000)}deep${'</div>'.repeat(60_000)}</body></html>`

/** More than the reader can do in the time that it has. */
const heavy = `<html><body>${`<div><p>${'some words, here and there, '.repeat(4)}`.repeat(20_000)}</body></html>`

let app: TestApp
let web: WebServer
let secret: WebServer
const failures: number[] = []

beforeAll(async () => {
  secret = await serveWeb({ '/': answer('secret') }, '127.0.0.3')
  const routes: Record<string, Route> = {
    '/article/page': answer(article, 'text/html; charset=utf-8'),
    '/latin': answer(Buffer.from('<p>caf\u00e9</p>', 'latin1'), 'text/html; charset=iso-8859-1'),
    '/tiny': answer('<p>Hello <b>you</b></p>', 'text/html'),
    '/empty': answer('<html><body><script>x()</script></body></html>', 'text/html'),
    '/deep': answer(deep, 'text/html'),
    '/heavy': answer(heavy, 'text/html'),
    '/json': json({ a: 1 }),
    '/picture': answer(Buffer.from([0x89, 0x50, 0, 1]), 'image/png'),
    '/error': (_request, response) => void response.writeHead(503).end('broken'),
    '/once': redirect('/json'),
    '/loop': redirect('/loop'),
    '/private': (_request, response) => void response.writeHead(302, { location: secret.at('/') }).end(),
    '/file': redirect('file:///etc/passwd'),
    '/other': (request, response) =>
      void response.writeHead(307, { location: `http://127.0.0.2:${request.socket.localPort}/json` }).end(),
    '/silent': () => {},
    '/headers': (request, response) => void response.end(JSON.stringify(request.headers)),
    '/html/': answer(duckDuckGo.results(25), 'text/html; charset=UTF-8'),
    '/none/': answer(duckDuckGo.nothing, 'text/html'),
    '/challenge/': (_request, response) =>
      void response.writeHead(202, { 'content-type': 'text/html' }).end(duckDuckGo.challenge),
    '/brave': json(brave),
    '/sx/search': json(searxng),
    '/tavily': json(tavily),
    '/nonsense': answer('<html>', 'text/html'),
    '/odd/1': json(null),
    '/odd/2': json({ web: null, results: null }),
    '/odd/3': json({ web: { results: [null, 5, 'x', { title: 'T', url: 'ftp://x' }] } }),
    '/busy': (_request, response) => {
      failures.push(1)
      if (failures.length < 3) response.writeHead(429, { 'retry-after': '0' }).end()
      else json(brave)(_request, response)
    },
    '/down': (_request, response) => void response.writeHead(500, { 'retry-after': '0' }).end(),
    '/forbidden': (_request, response) => void response.writeHead(403).end(),
  }
  web = await serveWeb(routes)
  app = await openTestApp({
    config: { 'web.allow_private_addresses': ['127.0.0.1', '127.0.0.2'], 'web.max_response_bytes': 3_000_000 },
  })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await web[Symbol.asyncDispose]()
  await secret[Symbol.asyncDispose]()
})

const fetchPage = (path: string, more: object = {}) => app.ask('web.fetch', { url: web.at(path), ...more })
const refused = (path: string, more: object = {}) => app.refusal('web.fetch', { url: web.at(path), ...more })

describe('web.fetch', () => {
  it('gives an article as Markdown, without what is around it', async () => {
    const page = await fetchPage('/article/page')
    expect(page).toMatchObject({ http_status: 200, content_format: 'markdown', url: web.at('/article/page') })
    const text = page['result'] as string
    expect(text).toContain(`[the keep](${web.at('/keep?x=1')})`)
    expect(text).toMatch(/^# Castles/)
    expect(text).toMatch(/\* wall\n\* moat/)
    expect(text).toContain('let castle = 1')
    expect(text).not.toMatch(/alert|Imprint|color:red/)
    const { content } = await app.call('web.fetch', { url: web.at('/article/page') })
    expect(content).toEqual([{ type: 'text', text }])
  })

  it('gives what else there is as it is', async () => {
    expect(await fetchPage('/article/page', { to_markdown: false })).toMatchObject({
      content_format: 'html',
      result: article,
    })
    expect((await fetchPage('/tiny'))['result']).toBe('Hello **you**')
    expect((await fetchPage('/latin'))['result']).toBe('café')
    expect(await fetchPage('/empty')).toMatchObject({ content_format: 'html' })
    const unread = await app.call('web.fetch', { url: web.at('/empty') })
    expect(JSON.stringify(unread.content)).toContain('Warning: The page could not be turned into Markdown')
    expect(await fetchPage('/json')).toMatchObject({ content_format: 'text', result: '{"a":1}', content_length: 7 })
    expect(await fetchPage('/deep')).toMatchObject({ http_status: 200 })
    expect((await refused('/picture')).code).toBe('ERR_NOT_TEXT')
  })

  it('counts the reading of the page to its time, and its waiting for a turn', async () => {
    const answers = Array.from({ length: 4 }, () => refused('/heavy', { timeout_secs: 2 }))
    for (const { code } of await Promise.all(answers)) expect(code).toBe('ERR_TIMED_OUT')
    expect((await fetchPage('/tiny'))['result']).toBe('Hello **you**')
    const before = web.requests.length
    const cancelling = new AbortController()
    const reading = Array.from({ length: 3 }, () =>
      app.call('web.fetch', { url: web.at('/heavy') }, undefined, { signal: cancelling.signal }),
    )
    await expect.poll(() => web.requests.length - before).toBe(3)
    cancelling.abort()
    for (const { failure } of await Promise.all(reading)) expect(failure?.code).toBe('ERR_CANCELLED')
    expect((await fetchPage('/tiny'))['result']).toBe('Hello **you**')
  })

  it('says nothing of the machine but that it is a program', async () => {
    const headers = JSON.parse((await fetchPage('/headers'))['result'] as string) as Answer
    // What is asked of this machine says that it was forwarded.
    expect(Object.keys(headers).sort()).toEqual([
      'accept',
      'accept-encoding',
      'connection',
      'host',
      'user-agent',
      'via',
    ])
  })

  it('takes an error for an error', async () => {
    expect(await refused('/error')).toMatchObject({ code: 'ERR_WEB_FAILED', details: { http_status: 503 } })
    expect(await refused('/none-such')).toMatchObject({ code: 'ERR_WEB_FAILED', details: { http_status: 404 } })
    expect((await refused('/silent', { timeout_secs: 1 })).code).toBe('ERR_TIMED_OUT')
    for (const url of [
      'ftp://example.org/',
      'example.org',
      '/etc/passwd',
      'file:///etc/passwd',
      'http://',
      'http://a:b@127.0.0.1/',
    ]) {
      expect(await app.refusal('web.fetch', { url })).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        details: { field: 'url' },
      })
    }
    expect((await app.refusal('web.fetch', {})).message).toContain("required field 'url' is missing or null")
  })

  it('follows redirects, ten at most and only where it may go', async () => {
    expect(await fetchPage('/once')).toMatchObject({ url: web.at('/json') })
    expect(await fetchPage('/once', { follow_redirects: false })).toMatchObject({ http_status: 302, result: '' })
    const before = web.requests.length
    expect((await refused('/loop')).code).toBe('ERR_WEB_FAILED')
    expect(web.requests.length - before).toBe(11)
    expect(await refused('/private')).toMatchObject({
      code: 'ERR_POLICY_VIOLATION',
      details: { reason: 'private_address' },
    })
    expect(secret.requests).toHaveLength(0)
    expect((await refused('/file')).code).toBe('ERR_INVALID_INPUT')
  })

  it('holds every address on the way against the lists of the contexts', async () => {
    const only = (limits: Partial<Capability>) =>
      callerOf({
        ...localOwner,
        securityContexts: [
          { name: 'narrow', description: '', capabilities: [{ toolPattern: 'web.*', ...limits }], denyList: [] },
        ],
      })
    const caller = only({ domainAllowlist: ['127.0.0.1'] })
    expect(await app.ask('web.fetch', { url: web.at('/json') }, caller)).toMatchObject({ http_status: 200 })
    for (const url of [web.at('/other'), web.at('/json', '127.0.0.2')]) {
      expect(await app.refusal('web.fetch', { url }, caller)).toMatchObject({
        code: 'ERR_POLICY_VIOLATION',
        message: expect.stringContaining('Allowed: 127.0.0.1.'),
        details: { violation: 'DomainNotAllowed' },
      })
    }
    const denying = only({ domainDenylist: ['127.0.0.2'] })
    expect((await app.refusal('web.fetch', { url: web.at('/other') }, denying)).details['violation']).toBe(
      'DomainNotAllowed',
    )
    expect((await app.refusal('web.search', { query: 'x' }, caller)).details['violation']).toBe('DomainNotAllowed')
  })
})

async function searching<T>(config: Record<string, string>, work: (engine: TestApp) => Promise<T>): Promise<T> {
  await using engine = await openTestApp({ config })
  return await work(engine)
}
const engineAt = (search_engine: string, path: string, key?: string) => ({
  'web.search_engine': search_engine,
  'web.search_url': web.at(path),
  ...(key === undefined ? {} : { 'web.search_key': key }),
})

describe('web.search', () => {
  it('asks DuckDuckGo, and leaves advertisements out', async () => {
    await searching(engineAt('duckduckgo', '/html/'), async (engine) => {
      const found = await engine.ask<{ results: Answer[]; result: string }>('web.search', { query: ' castle & keep ' })
      expect(found).toMatchObject({ engine: 'duckduckgo', query: 'castle & keep', result_count: 10 })
      expect(found.results[0]).toEqual({
        title: 'Castle & keep 1',
        url: 'https://castle.example/1?a=1&b=2',
        snippet: 'A castle of stone',
      })
      expect(found.result).toMatch(
        /^1\. Castle & keep 1\n {3}https:\/\/castle\.example\/1\?a=1&b=2\n {3}A castle of stone\n\n2\. /,
      )
      expect(new URL(web.requests.at(-1)!.url!, 'http://x').searchParams.get('q')).toBe('castle & keep')
      const many = await engine.call('web.search', { query: 'castle', max_results: 100 })
      expect(JSON.parse(many.json)).toMatchObject({ result_count: 20 })
      expect(many.content).toHaveLength(2)
      expect((await engine.ask('web.search', { query: 'castle', max_results: 3 }))['result_count']).toBe(3)
      expect((await engine.refusal('web.search', { query: '  ' })).details['field']).toBe('query')
    })
  })

  it('says that there is nothing, or that a person is wanted', async () => {
    await searching(engineAt('duckduckgo', '/none/'), async (engine) => {
      expect(await engine.ask('web.search', { query: 'x' })).toMatchObject({ result_count: 0, result: 'No results.' })
    })
    await searching(engineAt('duckduckgo', '/challenge/'), async (engine) => {
      expect(await engine.refusal('web.search', { query: 'x' })).toMatchObject({
        code: 'ERR_WEB_FAILED',
        message: expect.stringContaining('web.search_engine'),
      })
    })
  })

  it('asks other engines in their own ways', async () => {
    await searching(engineAt('brave', '/brave', 'key-1'), async (engine) => {
      const found = await engine.ask<{ results: Answer[] }>('web.search', { query: 'castle' })
      expect(found.results).toEqual([
        { title: 'Castle', url: 'https://castle.example/', snippet: 'A castle.' },
        { title: "Tom & Ann's keep", url: 'https://keep.example/', snippet: '"A keep" – &odd; &lt;' },
      ])
      expect(web.requests.at(-1)).toMatchObject({
        url: '/brave?q=castle&count=10',
        headers: { 'x-subscription-token': 'key-1' },
      })
    })
    await searching(engineAt('searxng', '/sx'), async (engine) => {
      expect(await engine.ask('web.search', { query: 'castle' })).toMatchObject({
        result_count: 3,
        results: [{ snippet: 'A castle.' }, { snippet: '' }, { snippet: 'A &amp; B <b>' }],
      })
      expect(web.requests.at(-1)!.url).toBe('/sx/search?q=castle&format=json')
    })
    await searching(engineAt('tavily', '/tavily', 'key-2'), async (engine) => {
      expect((await engine.ask('web.search', { query: 'castle', max_results: 5 }))['result_count']).toBe(1)
      expect(web.requests.at(-1)!.headers.authorization).toBe('Bearer key-2')
      expect(JSON.parse(web.bodies.at(-1)!)).toEqual({ query: 'castle', max_results: 5 })
    })
  })

  it('asks again when the engine is busy, and gives up in time', async () => {
    await searching(engineAt('brave', '/busy', 'k'), async (engine) => {
      expect((await engine.ask('web.search', { query: 'castle' }))['result_count']).toBe(2)
      expect(failures).toHaveLength(3)
    })
    await searching(engineAt('brave', '/down', 'k'), async (engine) => {
      const before = web.requests.length
      expect(await engine.refusal('web.search', { query: 'x' })).toMatchObject({
        code: 'ERR_WEB_FAILED',
        details: { http_status: 500 },
      })
      expect(web.requests.length - before).toBe(3)
    })
    await searching(engineAt('brave', '/forbidden', 'k'), async (engine) => {
      expect((await engine.refusal('web.search', { query: 'x' })).message).toContain('web.search_key')
    })
    await searching(engineAt('searxng', '/nonsense/..'), async (engine) => {
      expect((await engine.refusal('web.search', { query: 'x' })).code).toBe('ERR_WEB_FAILED')
    })
    await searching(engineAt('brave', '/nonsense', 'k'), async (engine) => {
      expect((await engine.refusal('web.search', { query: 'x' })).message).toContain('cannot be read')
    })
  })

  it('takes odd answers for what they are', async () => {
    for (const path of ['/odd/1', '/odd/2']) {
      await searching(engineAt('brave', path, 'k'), async (engine) => {
        expect((await engine.refusal('web.search', { query: 'x' })).message).toContain('cannot be read')
      })
    }
    await searching(engineAt('brave', '/odd/3', 'k'), async (engine) => {
      expect(await engine.ask('web.search', { query: 'x' })).toMatchObject({ result_count: 0 })
    })
  })

  it('says what is missing in the configuration', async () => {
    for (const [search_engine, field] of [
      ['brave', 'web.search_key'],
      ['tavily', 'web.search_key'],
      ['searxng', 'web.search_url'],
    ] as const) {
      await searching({ 'web.search_engine': search_engine }, async (engine) => {
        expect(await engine.refusal('web.search', { query: 'x' })).toMatchObject({
          code: 'ERR_FEATURE_DISABLED',
          details: { field },
        })
      })
    }
  })
})
