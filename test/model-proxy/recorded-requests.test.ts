import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Which requests the log has, of unusual ones. */
let upstream: Server
let server: ServerHere
let answer: (res: ServerResponse) => void

beforeAll(async () => {
  upstream = createServer((req, res) => void req.resume().on('end', () => answer(res)))
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const models = [{ alias: 'default', model: 'm' }]
  const providers = [{ name: 'raw', type: 'openai-compatible', endpoint, api_key: 'env:NO_KEY', models }]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  server = await startServerHere({ dataDir, env: { NO_KEY: 'k' } })
})
afterAll(async () => {
  await server.stop()
  upstream.closeAllConnections()
  upstream.close()
})

const ask = (session: string, more = '', signal?: AbortSignal) =>
  fetch(new URL('/v1/raw/chat/completions', server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-castellan-session-id': session },
    body: `{"model":"m","messages":[]${more}}`,
    ...(signal && { signal }),
  })

type Recorded = Readonly<{ outcome: string; content?: { input: { session?: string } } }>

/** The outcomes in the file of the store, by session; the records come a moment after the answers. */
function recorded(): ReadonlyMap<string, string> {
  const db = new DatabaseSync(join(server.dataDir, 'castellan.db'), { readOnly: true })
  try {
    const rows = db.prepare('SELECT record FROM log_entries ORDER BY seq').all()
    const records = rows.map((row) => JSON.parse(String(row['record'])) as Recorded & { calls?: Recorded[] })
    const calls = records.flatMap((record) => record.calls ?? [record])
    return new Map(calls.map(({ outcome, content }) => [content?.input.session ?? '', outcome]))
  } finally {
    db.close()
  }
}

it.each([',"max_tokens":1e400', ',"max_tokens":0,"n":1e400'])(
  'one that asks for more than any number, and the one beside it: %s',
  async (asked) => {
    const [left, beside] = [`left ${asked.length}`, `beside ${asked.length}`]
    const arrived = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<void>()
    answer = (res) => {
      res.on('close', () => ended.resolve())
      arrived.resolve()
    }
    const leaving = new AbortController()
    const cut = ask(left, asked, leaving.signal)
    await arrived.promise
    leaving.abort()
    await expect(cut).rejects.toThrow()
    await ended.promise
    answer = (res) => res.setHeader('content-type', 'application/json').end('{"model":"m","choices":[]}')
    await (await ask(beside)).text()
    await expect.poll(() => [left, beside].map((session) => recorded().get(session))).toEqual(['cancelled', 'ok'])
  },
)

it('none that was not sent on, because its caller has too many', async () => {
  answer = () => {}
  const leaving = new AbortController()
  const refused: string[] = []
  const sent = Array.from({ length: limits.callsInFlightPerConnectionMax + 5 }, async (_, index) => {
    const session = `many ${index}`
    const response = await ask(session, '', leaving.signal).catch(() => null)
    if (response === null) return [session]
    expect([response.status, await response.json()]).toMatchObject([503, { error: { code: 'ERR_BUSY' } }])
    refused.push(session)
    return []
  })
  await expect.poll(() => refused.length).toBe(5)
  leaving.abort()
  const left = (await Promise.all(sent)).flat()
  const among = (sessions: readonly string[]): number => {
    const found = recorded()
    return sessions.filter((session) => found.has(session)).length
  }
  await expect.poll(() => among(left)).toBe(left.length)
  expect(among(refused)).toBe(0)
})
