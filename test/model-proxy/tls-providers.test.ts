import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'
import { makeTlsPair } from '../support/tls-files.ts'

/** Providers are mostly reached over TLS, by another client than those without it. */
let provider: Server
let server: ServerHere
let origin: string
let answer: (res: ServerResponse) => void
const trusted = getCACertificates('default')

beforeAll(async () => {
  const dataDir = newDataDir()
  const pair = makeTlsPair(dataDir, 'provider')
  setDefaultCACertificates([...trusted, pair.ca])
  provider = createServer({ cert: readFileSync(pair.cert), key: readFileSync(pair.key) }, (req, res) => {
    req.resume().on('end', () => answer(res))
  })
  provider.listen(0, '127.0.0.1')
  await once(provider, 'listening')
  const { port } = provider.address() as AddressInfo
  const models = [{ alias: 'default', model: 'm' }]
  const providers = [{ name: 'safe', type: 'openai-compatible', endpoint: `https://localhost:${port}/v1`, models }]
  const config = { models: { providers }, model_proxy: { answer_timeout_secs: 1 } }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config), { mode: 0o600 })
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
})
afterAll(async () => {
  setDefaultCACertificates(trusted)
  await server.stop()
  provider.close()
  provider.closeAllConnections()
})

const ask = (body: object, signal?: AbortSignal) =>
  fetch(`${origin}/v1/safe/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', messages: [], ...body }),
    ...(signal && { signal }),
  })

it('a whole answer passes', async () => {
  const text = '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2},"e":"é"}'
  answer = (res) => res.writeHead(200, { 'content-type': 'application/json', 'x-request-id': 'yes' }).end(text)
  for (let turn = 0; turn < 2; turn++) {
    const res = await ask({})
    expect([res.status, await res.text(), res.headers.get('x-request-id')]).toEqual([200, text, 'yes'])
  }
})

it('a stream passes, and ends upstream when the client leaves', async () => {
  const left = Promise.withResolvers<void>()
  answer = (res) => {
    res.on('close', () => left.resolve())
    res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"choices":[]}\n\n')
  }
  const caller = new AbortController()
  const res = await ask({ stream: true }, caller.signal)
  const { value } = await res.body!.getReader().read()
  expect(Buffer.from(value!).toString()).toBe('data: {"choices":[]}\n\n')
  caller.abort()
  await left.promise
})

it('one that does not answer in time is given up', async () => {
  answer = () => {}
  const res = await ask({})
  expect([res.status, await res.text()]).toEqual([504, expect.stringContaining('ERR_TIMED_OUT')])
})
