import { createServer, type Server } from 'node:http'
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

type Found = Readonly<{
  total: number
  matchCount: number
  truncated: boolean
  hint: string | null
  tools: readonly Readonly<{ toolName: string }>[]
}>
type Caller = Parameters<TestApp['ask']>[2]

async function open(config: Record<string, string | boolean> = {}): Promise<TestApp> {
  app = await openTestApp({ config })
  return app
}
const search = (running: TestApp, args: object, caller?: Caller) => running.ask<Found>('search_tools', args, caller)
const namesOf = ({ tools }: Found) => tools.map(({ toolName }) => toolName)

describe('with the model that comes with the program', () => {
  it('finds what shares no word with the need, in the published shape', async () => {
    const found = await search(await open(), { query: 'open localhost:3000 in my browser', limit: 3 })
    expect(namesOf(found)[0]).toBe('port_forward')
    expect(Object.keys(found).sort()).toEqual(['hint', 'matchCount', 'tools', 'total', 'truncated'])
    expect(found).toMatchObject({ total: 3, truncated: true })
    expect(found.hint).toContain(`Showing 3 of ${found.matchCount} matches`)
    expect(found.hint).not.toContain('keyword matches')
  })

  it.each([
    ['merkle_root', 'merkle_root'],
    ['merkleRoot', 'merkle_root'],
    ['aegis_task_wait', 'aegis.task.wait'],
    ['Run tasks in forks', 'swarm_run'],
  ])('puts first what %s names', async (query, name) => {
    expect(namesOf(await search(await open(), { query }))[0]).toBe(name)
  })

  it('finds nothing for what means nothing', async () => {
    const found = await search(await open(), { query: 'qzxv wblorp' })
    expect(found).toMatchObject({ total: 0, matchCount: 0, truncated: false, tools: [] })
    expect(found.hint).toContain('No tool matches.')
  })

  it('shows nothing of tools that the caller may not use: not as results and not as counts', async () => {
    const running = await open()
    const reader = await running.keyCaller({ role: 'admin', scopes: ['task:read'] })
    const usable = new Set((await running.app.host.list(reader)).map(({ name }) => name))
    const query = { query: 'open localhost:3000 in my browser', limit: 20 }
    const found = await search(running, query, reader)
    expect(namesOf(found).filter((name) => !usable.has(name))).toEqual([])
    expect(found.matchCount).toBeLessThanOrEqual(usable.size)
    expect(usable.has('port_forward')).toBe(false)
  })
})

/** A service whose vectors say how much a text is about ports and about tickets. */
async function startEmbeddings(
  answers: (input: readonly string[]) => unknown,
): Promise<{ url: string; asked: number[] }> {
  const asked: number[] = []
  server = createServer(
    answering(async (request, response) => {
      const { input } = (await json(request)) as { input: string[] }
      asked.push(input.length)
      response.end(JSON.stringify(answers(input)))
    }),
  )
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked }
}
const topics = [/port|gangway/gi, /ticket/gi]
const vectors = (input: readonly string[]) => ({
  data: input.map((text, index) => ({
    index,
    embedding: [...topics.map((topic) => (text.match(topic) ?? []).length), 0.1],
  })),
})

describe('with a service that has another model', () => {
  it('has it make the vectors of the tools once, and then of each query', async () => {
    const { url, asked } = await startEmbeddings(vectors)
    const running = await open({ 'search.embeddings.url': url, 'search.embeddings.model': 'tiny' })
    const found = await search(running, { query: 'gangway' })
    expect(namesOf(found)[0]).toBe('port_forward')
    expect(asked.length).toBeGreaterThan(2)
    const before = asked.length
    await search(running, { query: 'ticket, please' })
    expect(asked.slice(before)).toEqual([1])
  })

  it.each([
    ['nothing', () => ({ data: [] })],
    ['vectors that are none', (input: readonly string[]) => ({ data: input.map(() => ({ embedding: ['x'] })) })],
    [
      'vectors of a length that changes',
      (input: readonly string[]) => ({ data: input.map(() => ({ embedding: new Array(input.length).fill(1) })) }),
    ],
  ])('goes by words, and says so, when it answers %s', async (_what, answers) => {
    const { url } = await startEmbeddings(answers)
    const running = await open({ 'search.embeddings.url': url })
    const found = await search(running, { query: 'forward a port' })
    expect(namesOf(found)[0]).toBe('port_forward')
    expect(found.hint).toContain('The model for semantic search did not answer, so these are keyword matches.')
  })
})

describe('without a model', () => {
  it('goes by words and says so, but for patterns', async () => {
    const running = await open({ 'search.local_model': false })
    const found = await search(running, { query: 'forward a port' })
    expect(namesOf(found)[0]).toBe('port_forward')
    expect(found.hint).toContain('No model for semantic search is available')
    expect((await search(running, { query: '^port_forward$', mode: 'regex' })).hint).toBeNull()
  })
})
