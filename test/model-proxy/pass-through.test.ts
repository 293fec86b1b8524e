import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { recordedCalls } from '../../src/audit/recorded-calls.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** A provider that answers what a test says, byte by byte, and remembers what it was sent. */
type Seen = Readonly<{ path: string; headers: IncomingMessage['headers']; body: string }>

let upstream: Server
let server: ServerHere
let origin: string
let seen: Seen[] = []
let answer: (res: ServerResponse, req: IncomingMessage) => void = () => {}

beforeAll(async () => {
  upstream = createServer((req, res) => {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => parts.push(part))
    req.on('end', () => {
      seen.push({ path: req.url!, headers: req.headers, body: Buffer.concat(parts).toString() })
      answer(res, req)
    })
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const models = [{ alias: 'default', model: 'm' }]
  const providers = [
    { name: 'raw', type: 'openai', endpoint: `${url}/v1`, api_key: 'env:MODEL_KEY', models },
    { name: 'closed', type: 'openai', endpoint: 'http://127.0.0.1:1/v1', models },
  ]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  process.env['MODEL_KEY'] = 'key-of-the-operator'
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
})
afterAll(async () => {
  await server.stop()
  upstream.close()
  upstream.closeAllConnections()
  delete process.env['MODEL_KEY']
})
beforeEach(() => {
  seen = []
  answer = (res) => res.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER)
})

const ANSWER =
  '{ "id":"x","model" : "m-1", "choices":[], "usage":{"prompt_tokens":3,"completion_tokens":2}, "extra":"\\u00e9" }\n'
const post = (path: string, body: string, headers: Record<string, string> = {}, signal?: AbortSignal) =>
  fetch(`${origin}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
    ...(signal && { signal }),
  })
const CHAT = '/v1/raw/chat/completions'
const BODY = '{"model":"m-1", "messages":[ ],"unknown":{"a":1e400}}'

describe('what passes through', () => {
  it('has the same bytes on both sides, and the headers of the provider', async () => {
    answer = (res) =>
      res
        .writeHead(200, {
          'content-type': 'application/json',
          'x-ratelimit-remaining-requests': '9',
          'set-cookie': 'a=b',
          'openai-version': '2020-10-01',
        })
        .end(ANSWER)
    const res = await post(`${CHAT}?a=1&key=castellan`, BODY, { 'openai-beta': 'b', cookie: 'secret=1' })
    expect(await res.text()).toBe(ANSWER)
    expect(res.headers.get('x-ratelimit-remaining-requests')).toBe('9')
    expect(res.headers.get('openai-version')).toBe('2020-10-01')
    expect(res.headers.get('set-cookie')).toBeNull()
    expect(seen).toMatchObject([
      { path: '/v1/chat/completions?a=1', body: BODY, headers: { authorization: 'Bearer key-of-the-operator' } },
    ])
    expect(seen[0]!.headers).toMatchObject({ 'openai-beta': 'b' })
    expect(seen[0]!.headers['cookie']).toBeUndefined()
  })

  it('is read by the provider in the encoding in which it was judged', async () => {
    const misleading = { 'content-type': 'application/json; charset=utf-7', 'content-encoding': 'br' }
    expect((await post(CHAT, BODY, misleading)).status).toBe(200)
    expect(seen[0]!.headers).toMatchObject({ 'content-type': 'application/json' })
    expect(seen[0]!.headers['content-encoding']).toBeUndefined()
    const compressed = await fetch(`${origin}${CHAT}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: gzipSync(BODY),
    })
    expect([compressed.status, await compressed.text()]).toEqual([400, expect.stringContaining('uncompressed')])
    expect(seen).toHaveLength(1)
  })

  it('is a stream as it came, but for the usage that only we asked for', async () => {
    const events = [
      '{"choices":[{"delta":{"content":"a"}}],"usage":null}',
      '{"choices":[],"usage":{"prompt_tokens":3}}',
    ]
    const text = `${events.map((event) => `data: ${event}\n\n`).join('')}data: [DONE]\n\n`
    answer = (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const part of text.match(/.{1,7}/gs) ?? []) res.write(part)
      res.end()
    }
    const plain = await post(CHAT, '{"stream":true,"model":"m"}')
    expect(await plain.text()).toBe(`data: ${events[0]}\n\ndata: [DONE]\n\n`)
    expect(seen[0]!.body).toBe('{"stream_options":{"include_usage":true},"stream":true,"model":"m"}')
    const asking = '{"stream":true,"stream_options":{"include_usage":true}}'
    expect(await (await post(CHAT, asking)).text()).toBe(text)
    expect(seen[1]!.body).toBe(asking)
  })

  it.each([400, 401, 404, 429, 500, 529])('is a refusal with %i, unchanged', async (status) => {
    const words = '{"error":{"message":"no","type":"theirs"}}'
    answer = (res) => res.writeHead(status, { 'content-type': 'application/json', 'retry-after': '3' }).end(words)
    const res = await post(CHAT, '{"stream":true}')
    expect([res.status, await res.text(), res.headers.get('retry-after')]).toEqual([status, words, '3'])
  })

  it('ends upstream when the client leaves', async () => {
    const left = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    answer = (res) => {
      res
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .write('data: {"choices":[]}\n\n', () => started.resolve())
      res.on('close', () => left.resolve())
    }
    const caller = new AbortController()
    const res = await post(CHAT, '{"stream":true}', {}, caller.signal)
    await started.promise
    await res.body!.getReader().read()
    caller.abort()
    await left.promise
  })

  it('breaks off where the provider broke off', async () => {
    answer = (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write('data: {"choices":[]}\n\n', () => res.destroy())
    }
    await expect(post(CHAT, '{"stream":true}').then((res) => res.text())).rejects.toThrow()
    answer = (res) =>
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': '99' }).write('{', () => res.destroy())
    expect((await post(CHAT, BODY)).status).toBe(503)
  })

  it('is no redirect, which would lead past this server with the key of the caller', async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      answer = (res) => res.writeHead(status, { location: 'http://127.0.0.1:1/v1/elsewhere' }).end('moved')
      const res = await fetch(`${origin}${CHAT}`, { method: 'POST', body: BODY, redirect: 'manual' })
      expect([res.status, res.headers.get('location')]).toEqual([503, null])
      const { error } = (await res.json()) as { error: { code: string; message: string } }
      expect(error).toMatchObject({ code: 'ERR_MODEL_FAILED' })
      expect(error.message).toContain("'raw' redirects")
    }
    answer = (res) => res.writeHead(304, { etag: 'x' }).end()
    expect((await fetch(`${origin}/v1/raw/models`, { headers: { 'if-none-match': 'x' } })).status).toBe(304)
  })

  it('is nothing but what is known', async () => {
    for (const [method, path] of [
      ['POST', '/v1/raw/files'],
      ['POST', '/v1/raw/chat/completions/../files'],
      ['DELETE', '/v1/raw/models/m'],
      ['GET', '/v1/raw/chat/completions'],
      ['POST', '/v1/raw/some-proxy/audio/speech'],
      ['POST', '/v1/raw/%2e%2e/chat/completions'],
      ['POST', '/v1/raw//chat/completions'],
      ['GET', '/v1/raw/models/..%2f..%2fadmin'],
    ] as const) {
      const status = await rawStatus(method, path)
      expect([404, 400], path).toContain(status)
    }
    expect(seen).toEqual([])
  })

  it('is refused in the form of the provider', async () => {
    const bad = await post(CHAT, '{"model":')
    expect(bad.status).toBe(400)
    expect(await bad.json()).toMatchObject({ error: { type: 'invalid_request_error', code: 'ERR_INVALID_INPUT' } })
    expect((await post(CHAT, '[1]')).status).toBe(400)
    const nowhere = await post('/v1/closed/chat/completions', BODY)
    expect([nowhere.status, await nowhere.json()]).toMatchObject([503, { error: { code: 'ERR_MODEL_FAILED' } }])
    const none = await post('/v1/raw/none/chat/completions', BODY)
    expect([none.status, await none.json()]).toMatchObject([404, { error: { code: 'ERR_NOT_FOUND' } }])
    const large = await rawStatus('POST', CHAT, { 'content-length': String(33 * 1024 * 1024) })
    expect(large).toBe(413)
    const members = Array.from({ length: 50_001 }, (_, index) => `"k${index}":1`).join()
    const wide = await post(CHAT, `{"model":"m","messages":[],"metadata":{${members}}}`)
    expect([wide.status, await wide.json()]).toMatchObject([413, { error: { code: 'ERR_TOO_LARGE' } }])
    expect(seen).toEqual([])
  })
})

describe('a member that programs could read differently', () => {
  it.each([
    ['Model', '{"model":"a","messages":[],"Model":"b"}'],
    ['model', '{"model":"a","messages":[],"model":"b"}'],
    ['model', '{"model":"a","messages":[],"mod\\u0065l":"b"}'],
    ['me\u017fsages', '{"model":"a","messages":[{"x":"\\"}"}],"me\u017fsages":[]}'],
    ['N', `{"model":"a","n":1,"x":"${'x'.repeat(20_000)}","N":[{}]}`],
    ['Tools', '{"Tools":[]}'],
    ['generation_config', '{"generationConfig":{},"generation_config":{}}'],
    ['plugins', '{"plugins":[{"id":"web"}],"plugins":null}'],
    ['Search_Parameters', '{"Search_Parameters":{"mode":"on"}}'],
    ['system', '{"system":[{"type":"document"}],"system":""}'],
    ['system_instruction', '{"systemInstruction":{},"system_instruction":{}}'],
    ['container', '{"container":"c","container":null}'],
  ])('is refused: %s', async (member, body) => {
    const res = await post(CHAT, body)
    const { error } = (await res.json()) as { error: { code: string; message: string } }
    expect([res.status, error.code]).toEqual([400, 'ERR_INVALID_INPUT'])
    expect(error.message).toContain(`'${member}'`)
    expect(seen).toEqual([])
  })

  it('is one of the request itself that is read here, and no other', async () => {
    const body = '{"model":"m","x":{"model":1,"model":2,"Model":3},"X":[["y"],"model"],"x":"model","user":"model"}'
    expect((await post(CHAT, body)).status).toBe(200)
    expect(seen[0]!.body).toBe(body)
  })
})

describe('the log', () => {
  it('has each request that was sent on, with its model and its tokens', async () => {
    const session = `session-${seen.length}-log`
    await (await post(CHAT, BODY, { 'x-castellan-session-id': session })).text()
    answer = (res) => res.writeHead(429, { 'content-type': 'application/json' }).end('{}')
    await (await post(CHAT, '{"model":"m-2"}', { 'x-castellan-session-id': session })).text()
    const left = Promise.withResolvers<void>()
    answer = (res) => {
      res.on('close', () => left.resolve())
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"choices":[1]}\n\n'.repeat(3))
    }
    const caller = new AbortController()
    const cut = await post(
      CHAT,
      '{"model":"gpt-4o","stream":true}',
      { 'x-castellan-session-id': session },
      caller.signal,
    )
    await cut.body!.getReader().read()
    caller.abort()
    await left.promise
    await expect
      .poll(async () => (await recorded(session)).map(({ outcome }) => outcome))
      .toEqual(['ok', 'failed', 'cancelled'])
    const [whole, refused, broken] = await recorded(session)
    expect(whole).toMatchObject({
      door: 'model-proxy',
      tool: 'model_request',
      principal: { kind: 'owner' },
      content: {
        input: { provider: 'raw', operation: 'chat', model: 'm-1', stream: false, authenticated_by: 'local_owner' },
        output: { status: 200, model: 'm-1', tokens: { input: 3, output: 2, estimated: false } },
      },
    })
    expect(refused).toMatchObject({ content: { output: { status: 429, tokens: null } } })
    expect(broken).toMatchObject({ content: { output: { status: 200, tokens: { output: 3, estimated: true } } } })
  })
})

describe('keys', () => {
  it('of the caller for the provider are passed on, and those of ours never', async () => {
    await post(CHAT, BODY, { authorization: 'Bearer sk-mine' })
    expect(seen[0]!.headers.authorization).toBe('Bearer sk-mine')
    const key = 'cst_aaaaaaaa_0000000000000000000000000000000000000000000'
    for (const headers of [
      { authorization: `Bearer ${key}` },
      { 'x-api-key': key },
      { 'x-goog-api-key': key },
      { 'api-key': key },
      { 'x-castellan-key': key, authorization: 'Bearer sk-mine' },
    ]) {
      const res = await post(CHAT, BODY, headers as Record<string, string>)
      expect(res.status, JSON.stringify(headers)).toBe(401)
    }
    for (const name of ['key', '%6bey', 'api-key', 'access_token', 'a=1&k%65y']) {
      expect((await post(`${CHAT}?${name}=${key}`, BODY)).status, name).toBe(401)
    }
    expect((await post(`${CHAT}?key=one&%6bey=two`, BODY)).status).toBe(401)
    expect((await post(CHAT, BODY, { authorization: 'Bearer one', 'x-api-key': 'two' })).status).toBe(401)
    const keyless = await post(CHAT, BODY, { 'x-forwarded-for': '203.0.113.9' })
    expect(keyless.status).toBe(401)
    expect(await keyless.text()).toMatch(/in place of the provider's key.*castellan keys create.*virtual_key_create/)
    const misspelt = await post(CHAT, BODY, { 'x-forwarded-for': '203.0.113.9', authorization: 'Bearer sk-wrong' })
    expect(misspelt.status).toBe(401)
    expect(await misspelt.text()).toMatch(/not one of this server: it is unknown or misspelt.*castellan keys create/)
    expect(seen).toHaveLength(1)
  })

  it('of the caller are passed on from wherever they stand, in the place of the provider', async () => {
    await post(`${CHAT}?a=%20&%6bey=sk-mine`, BODY)
    await post(CHAT, BODY, { 'api-key': 'sk-mine' })
    expect(seen.map(({ path }) => path)).toEqual(['/v1/chat/completions?a=+', '/v1/chat/completions'])
    for (const { headers } of seen) {
      expect(headers.authorization).toBe('Bearer sk-mine')
      expect(headers['api-key']).toBeUndefined()
    }
  })

  it('of ours are refused in any other place that would be sent on', async () => {
    const key = 'cvk_aaaaaaaa_0000000000000000000000000000000000000000000'
    for (const [query, headers] of [
      ['', { 'x-other': key }],
      ['', { 'helicone-auth': `Bearer ${key}` }],
      [`?other=${key}`, {}],
      [`?a=1;key=${key}`, {}],
      [`?${key}`, {}],
    ] as const) {
      const res = await post(`${CHAT}${query}`, BODY, headers as Record<string, string>)
      expect([res.status, await res.text()]).toEqual([400, expect.stringContaining('X-Castellan-Key')])
    }
    expect(seen).toEqual([])
    await post(`${CHAT}?a=%20b`, BODY, { 'x-other': 'fcst_ or cst' })
    expect(seen[0]!.path).toBe('/v1/chat/completions?a=%20b')
  })

  it('of ours are not sent on in a body', async () => {
    const secret = `${'AZaz09_-'.repeat(5)}abc`
    const ours = [`cst_0a1b2c3d_${secret}`, `cvk_0a1b2c3d_${secret}`, `csa_${'Ab1'.repeat(12)}`]
    const like = ['cst_…', 'cst_0a1b2c3d_short', 'cvk_', 'xcst_0a1b2c3d', 'csa_word']
    for (const path of [CHAT, '/v1/model-router/chat/completions', '/v1/raw/responses', '/v1/raw/embeddings']) {
      const body = {
        model: path.includes('router') ? 'raw:m' : 'm',
        user: ours[0],
        messages: [{ content: ours.join(' ') }],
      }
      await (await post(path, JSON.stringify({ ...body, metadata: { [ours[1]!]: like.join(' ') } }))).text()
      const sent = seen.at(-1)!.body
      for (const key of ours) expect(sent).not.toContain(key)
      expect(JSON.parse(sent)).toMatchObject({ user: '***', metadata: { '***': like.join(' ') } })
    }
  })

  it('choose the account only where they are the caller’s own', async () => {
    const account = { 'openai-organization': 'o', 'openai-project': 'p', 'x-goog-user-project': 'g' }
    await post(CHAT, BODY, account)
    await post(CHAT, BODY, { ...account, authorization: 'Bearer sk-mine' })
    for (const name of Object.keys(account)) expect(seen[0]!.headers[name]).toBeUndefined()
    expect(seen[1]!.headers).toMatchObject(account)
  })
})

type Recorded = Readonly<{ outcome: string; door: string; tool: string; content?: { input: { session?: string } } }>

/** What the file of the store has of the session; the records come a moment after the answers. */
async function recorded(session: string): Promise<Recorded[]> {
  const db = new DatabaseSync(join(server.dataDir, 'castellan.db'), { readOnly: true })
  try {
    const rows = db.prepare('SELECT record FROM log_entries ORDER BY seq').all()
    const calls = rows.flatMap(({ record }) => recordedCalls(String(record)) as unknown as readonly Recorded[])
    return calls.filter(({ content }) => content?.input.session === session)
  } finally {
    db.close()
  }
}

/** What fetch would tidy up goes out as it is written. */
async function rawStatus(method: string, path: string, headers: Record<string, string> = {}): Promise<number> {
  const { port } = new URL(origin)
  const req = httpRequest({ host: '127.0.0.1', port, method, path, headers })
  req.on('error', () => {})
  if (headers['content-length'] === undefined) req.end()
  else req.flushHeaders()
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  res.resume()
  req.destroy()
  return res.statusCode!
}
