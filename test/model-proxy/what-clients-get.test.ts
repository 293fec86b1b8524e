import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What a provider may make a client, or a browser on our origin, see. */
let upstream: Server
let server: ServerHere
let origin: string
let answer: RequestListener
const KEY = 'sk-operator/secret+key-0123456789'

beforeAll(async () => {
  upstream = createServer((req, res) => {
    req.resume().on('end', () => answer(req, res))
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const provider = (name: string, type: string) => ({
    ...{ name, type, endpoint, api_key: 'env:KEY_OF_THE_OPERATOR' },
    models: [{ alias: name, model: 'm' }],
  })
  const models = { providers: [provider('default', 'openai-compatible'), provider('second', 'anthropic')] }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models, interactions: { bodies: 'full' } }))
  process.env['KEY_OF_THE_OPERATOR'] = KEY
  server = await startServerHere({ dataDir })
  delete process.env['KEY_OF_THE_OPERATOR']
  origin = new URL(server.url).origin
})
afterAll(async () => {
  await server.stop()
  upstream.closeAllConnections()
  upstream.close()
})
const post = (body: object, path = 'default/chat/completions') =>
  fetch(`${origin}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [], ...body }),
  })

describe('an answer of a provider', () => {
  it.each([
    ['text/html', 200],
    ['text/html; charset=utf-8', 404],
    ['image/svg+xml', 200],
    ['application/xhtml+xml', 200],
    ['application/json, text/html', 200],
    ['text/javascript', 200],
  ])('is never a page of ours: %s with %i', async (type, status) => {
    const headers = {
      ...{
        'content-type': type,
        'content-security-policy': 'default-src *',
        refresh: '0; url=/',
        link: '</x>; rel=preload',
      },
      ...{
        'x-castellan-model': 'theirs',
        'clear-site-data': '"*"',
        'service-worker-allowed': '/',
        'x-frame-options': 'ALLOWALL',
      },
      ...{ location: '/elsewhere', sourcemap: '/x', 'content-disposition': 'attachment', 'x-request-id': 'theirs' },
    }
    answer = (_, res) => void res.writeHead(status, headers).end('<script>1</script>')
    for (const response of [await fetch(`${origin}/v1/default/models`), await post({})]) {
      expect(response.status).toBe(status)
      const got = Object.fromEntries(response.headers)
      expect(got).toMatchObject({
        'content-type': 'application/octet-stream',
        'content-security-policy': "default-src 'none'; sandbox",
        'x-content-type-options': 'nosniff',
        'x-request-id': 'theirs',
      })
      for (const name of Object.keys(headers).filter((one) => !/^content-(?:type|sec)|request-id/.test(one)))
        expect(got[name], name).toBeUndefined()
    }
  })

  it.each([
    'application/json; charset=utf-8',
    'application/problem+json',
    'text/event-stream; charset=utf-8',
    'audio/mpeg',
  ])('keeps a type that programs read: %s', async (type) => {
    answer = (_, res) => void res.writeHead(200, { 'content-type': type, 'x-ratelimit-reset': '1' }).end('{}')
    const response = await post({})
    expect(response.headers.get('content-type')).toBe(type)
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    expect(response.headers.get('x-ratelimit-reset')).toBe('1')
  })
})

describe('the key of the operator', () => {
  const asStream = { 'content-type': 'text/event-stream' }
  const asJson = { 'content-type': 'application/json' }
  it.each<[string, number, Readonly<Record<string, string>>, readonly string[]]>([
    ['a refusal', 401, asJson, [`{"error":{"message":"bad key ${KEY}"}}`]],
    ['an answer', 200, asJson, [`{"choices":[{"message":{"content":"${KEY}"}}]}`]],
    ['an odd status', 300, asJson, [`{"x":"${KEY}"}`]],
    ['a stream in two parts', 200, asStream, [`data: {"x":"${KEY.slice(0, 9)}`, `${KEY.slice(9)} after"}\n\n`]],
  ])('is in no header and no body of %s', async (_, status, headers, parts) => {
    answer = async (_req, res) => {
      res.writeHead(status, {
        ...headers,
        'x-request-id': `a ${KEY}`,
        'openai-processing-ms': KEY,
        'www-authenticate': KEY,
      })
      for (const part of parts) await new Promise<void>((resolve) => res.write(part, () => setImmediate(resolve)))
      res.end()
    }
    for (const isStream of [false, true]) {
      const response = await post({ stream: isStream })
      expect(response.status).toBe(status)
      expect(response.headers.get('x-request-id')).toBe('a [redacted]')
      expect(JSON.stringify([...response.headers])).not.toContain(KEY)
      const text = await response.text()
      expect(text).toContain('[redacted]')
      expect(text).not.toContain(KEY)
    }
    const kept = await fetch(`${origin}/v1/tools/interaction_list`, {
      method: 'POST',
      body: '{"limit":1}',
      headers: asJson,
    })
    const { interactions } = (await kept.json()) as { interactions: { id: string }[] }
    const one = await fetch(`${origin}/v1/tools/interaction_get`, {
      method: 'POST',
      headers: asJson,
      body: JSON.stringify({ id: interactions[0]!.id }),
    })
    expect(await one.text()).not.toContain(KEY)
  })

  it('is in no answer to other operations', async () => {
    answer = (_, res) => void res.writeHead(200, asJson).end(`{"data":[{"id":"${KEY}"}]}`)
    for (const response of [
      await fetch(`${origin}/v1/default/models`),
      await post({}, 'second/v1/messages/count_tokens'),
    ]) {
      expect([response.status, await response.text()]).toEqual([200, '{"data":[{"id":"[redacted]"}]}'])
    }
  })
})
