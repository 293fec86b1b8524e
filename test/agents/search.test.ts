import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterEach, describe, expect, it } from 'vitest'
import { answering } from '../support/answering.ts'
import { openTestApp, type TestApp } from '../support/app.ts'

let app: TestApp | undefined
let server: Server | undefined
afterEach(async () => {
  await app?.[Symbol.asyncDispose]()
  server?.closeAllConnections()
  server?.close()
  app = undefined
  server = undefined
})

type Found = Readonly<{ results: readonly { name: string; score: number }[]; total: number; mode: string }>
const manifest = (name: string, description: string, labels = '{}') =>
  `{apiVersion: 100monkeys.ai/v1, kind: Agent, metadata: {name: ${name}, version: "1.0.0", description: "${description}", labels: ${labels}}, spec: {runtime: {language: python, version: "3.11"}, task: {instruction: Do it.}}}`

async function withAgents(config: Record<string, string | boolean> = {}): Promise<TestApp> {
  app = await openTestApp({ config: { 'search.local_model': false, ...config } })
  const agents = [
    ['image-resizer', 'Changes width and height of pictures.', '{team: media}'],
    ['mail-sorter', 'Sorts incoming letters into folders.', '{team: office}'],
    ['poet', 'Writes verses about the sea.', '{team: media}'],
  ] as const
  for (const [name, description, labels] of agents) {
    await app.ask('aegis.agent.create', { manifest_yaml: manifest(name, description, labels) })
  }
  return app
}
const search = (running: TestApp, query: string, more: object = {}) =>
  running.ask<Found>('aegis.agent.search', { query, include_platform_templates: false, ...more })
const namesOf = ({ results }: Found) => results.map(({ name }) => name)

describe('by words', () => {
  it('finds the words in whatever form, and says that it goes by words', async () => {
    const running = await withAgents()
    const answer = await running.call('aegis.agent.search', {
      query: 'resizing an image',
      include_platform_templates: false,
    })
    const found = JSON.parse(answer.json) as Found
    expect(found).toMatchObject({ tool: 'aegis.agent.search', query: 'resizing an image', mode: 'keyword', total: 1 })
    expect(namesOf(found)).toEqual(['image-resizer'])
    expect(JSON.stringify(answer.content)).toContain('keyword matches')
  })

  it('gives scores from 0 to 1, a name its full one, and keeps the least score', async () => {
    const running = await withAgents()
    expect((await search(running, 'image resizer')).results).toMatchObject([{ name: 'image-resizer', score: 1 }])
    expect((await search(running, 'verses letters nothing', { min_score: 0 })).total).toBe(2)
    expect((await search(running, 'verses letters nothing', { min_score: 0.9 })).total).toBe(0)
  })

  it('filters by labels, status and templates', async () => {
    const running = await withAgents()
    const media = { labels: { team: 'media' }, min_score: 0.1 }
    expect(namesOf(await search(running, 'letters verses', media))).toEqual(['poet'])
    expect((await search(running, 'verses', { status: 'paused' })).total).toBe(0)
    expect(namesOf(await search(running, 'web research sources', { include_platform_templates: true }))).toContain(
      'researcher',
    )
  })
})

/** A service whose vectors say how much a text is about pictures, letters and poems. */
const topics = [/pictur|image|photo|thumbnail/gi, /mail|letter|post/gi, /poet|verse|poem|rhyme/gi]
type Asked = { headers: IncomingHttpHeaders; body: { model: string; input: string[] } }

async function startEmbeddings(reply?: (body: Asked['body']) => unknown): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = []
  server = createServer(
    answering(async (request, response) => {
      const body = (await json(request)) as Asked['body']
      asked.push({ headers: request.headers, body })
      const data = body.input.map((text, index) => ({
        object: 'embedding',
        index,
        embedding: [...topics.map((topic) => (text.match(topic) ?? []).length), 0.1],
      }))
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(reply === undefined ? { object: 'list', data: data.reverse() } : reply(body)))
    }),
  )
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/`, asked }
}

describe('by meaning, with the model that comes with the program', () => {
  it('finds what shares no word with the query, among the templates too', async () => {
    const running = await withAgents({ 'search.local_model': true })
    const found = await search(running, 'make thumbnails smaller')
    expect(found.mode).toBe('semantic')
    expect(found.results[0]).toMatchObject({ name: 'image-resizer' })
    expect(found.results.every(({ score }) => score >= 0.3 && score <= 1)).toBe(true)
    const templates = { include_platform_templates: true }
    expect(namesOf(await search(running, 'look up facts on the internet', templates))[0]).toBe('researcher')
  })
})

describe('by meaning, with a service', () => {
  it('finds what shares no word with the query, and embeds each text once', async () => {
    const { url, asked } = await startEmbeddings()
    const running = await withAgents({
      'search.embeddings.url': url,
      'search.embeddings.model': 'tiny',
      'search.embeddings.api_key': 'k-1',
    })
    const found = await search(running, 'make thumbnails')
    expect(found.mode).toBe('semantic')
    expect(namesOf(found)).toEqual(['image-resizer'])
    expect(found.results[0]!.score).toBeGreaterThan(0.9)
    expect(asked[0]).toMatchObject({ headers: { authorization: 'Bearer k-1' }, body: { model: 'tiny' } })
    expect(namesOf(await search(running, 'rhymes'))).toEqual(['poet'])
    expect(asked.map(({ body }) => body.input.length)).toEqual([4, 1])
  })

  it.each([
    ['no vectors', () => ({ data: [] })],
    ['vectors that are none', ({ input }: Asked['body']) => ({ data: input.map(() => ({ embedding: ['x'] })) })],
    [
      'vectors of different lengths',
      ({ input }: Asked['body']) => ({
        data: input.map((_, index) => ({ index, embedding: new Array(index + 1).fill(1) })),
      }),
    ],
    ['something else', () => 'hello'],
  ])('goes by words when the service answers %s', async (_what, reply) => {
    const { url } = await startEmbeddings(reply as (body: Asked['body']) => unknown)
    const running = await withAgents({ 'search.embeddings.url': url })
    expect(await search(running, 'verses')).toMatchObject({ mode: 'keyword', total: 1 })
  })

  it('goes by words when nobody answers', async () => {
    const running = await withAgents({ 'search.embeddings.url': 'http://127.0.0.1:2/v1' })
    expect(await search(running, 'verses')).toMatchObject({ mode: 'keyword', total: 1 })
  })
})
