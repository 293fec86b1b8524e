import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect } from 'vitest'
import { answering } from './answering.ts'
import { startServerHere } from './server-here.ts'

type Asked = Readonly<{ model: string; key: string | undefined }>
type Setting = Readonly<Record<string, string>>

/** What the real program asks the embeddings service for when it searches, and by what it then searched. */
async function searched(setting: Setting, isSilent = false): Promise<{ mode: unknown; asked: Asked[] }> {
  const asked: Asked[] = []
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { model, input } = (await json(request)) as { model: string; input: string[] }
    asked.push({ model, key: request.headers.authorization })
    if (isSilent) return
    response.end(JSON.stringify({ data: input.map((_, index) => ({ index, embedding: [1, 2] })) }))
  }
  const service = createServer(answering(answer))
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
  const server = await startServerHere({ env: { CASTELLAN_SEARCH_EMBEDDINGS_URL: url, ...setting } })
  try {
    const reply = await fetch(new URL('/v1/tools/aegis.agent.search', server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'write code' }),
    })
    const { mode } = (await reply.json()) as { mode: unknown }
    return { mode, asked }
  } finally {
    await server.stop()
    service.closeAllConnections()
    service.close()
  }
}

/** Settings of `search`, each given to the real program. */
export const searchEffects: Readonly<Record<string, () => Promise<void>>> = {
  async 'search.local_model'() {
    const off = { CASTELLAN_SEARCH_EMBEDDINGS_URL: '', CASTELLAN_SEARCH_LOCAL_MODEL: 'false' }
    expect((await searched(off)).mode).toBe('keyword')
    expect((await searched({ CASTELLAN_SEARCH_EMBEDDINGS_URL: '' })).mode).toBe('semantic')
  },
  async 'search.embeddings.url'() {
    expect((await searched({})).mode).toBe('semantic')
  },
  async 'search.embeddings.model'() {
    expect((await searched({ CASTELLAN_SEARCH_EMBEDDINGS_MODEL: 'mine' })).asked[0]?.model).toBe('mine')
  },
  async 'search.embeddings.api_key'() {
    const setting = { CASTELLAN_SEARCH_EMBEDDINGS_API_KEY: 'env:MY_KEY', MY_KEY: 'k-1' }
    expect((await searched(setting)).asked[0]?.key).toBe('Bearer k-1')
  },
  async 'search.embeddings.timeout_ms'() {
    expect((await searched({ CASTELLAN_SEARCH_EMBEDDINGS_TIMEOUT_MS: '100' }, true)).mode).toBe('keyword')
  },
}
