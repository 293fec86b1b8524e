import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CallingClient } from '../../src/contract/calling-client.ts'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { OBEY, startTalkingUpstream } from '../support/talking-upstream.ts'

/** What a server says besides a result makes untrusted who hears it, before it is heard. */
let app: TestApp
let upstream: Awaited<ReturnType<typeof startTalkingUpstream>>
let sessions = 0
const connection = (): ToolCaller => callerOf({ ...localOwner, mcpSessionId: `heard${++sessions}` })
const isUntrusted = async (caller: ToolCaller): Promise<unknown> =>
  (await app.ask('context_trust_get', {}, caller))['untrusted']
const cli = callerOf(localOwner, { transport: 'cli' })

beforeAll(async () => {
  upstream = await startTalkingUpstream()
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-heard-'))
  const web = { allow_private_addresses: ['127.0.0.1'] }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ web, governance: 'restrictive' }))
  app = await openTestApp({ dataDir })
  const item = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  await app.ask('deploy_mcp_server', { catalogId: item.id, scope: 'org' })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

/** Calls a tool that never answers, and ends the call when something of the server was heard: what, and who heard it. */
async function heardFrom(tool: string) {
  const caller = connection()
  const ending = new AbortController()
  const heard = Promise.withResolvers<string>()
  const client: CallingClient = {
    ...{ id: `c${sessions}`, owner: 'test', isSession: true, logLevel: 'debug' },
    capabilities: { elicitation: { form: {} }, sampling: {} },
    ask: (questions) => {
      heard.resolve(JSON.stringify(questions))
      return new Promise(() => {})
    },
    tell: ({ params }) => heard.resolve(JSON.stringify(params)),
  }
  const progress = ({ message = 'nothing' }) => heard.resolve(message)
  const options = { signal: ending.signal, progress, ...(tool !== 'progress' && { client }) }
  const call = app.call(`up__${tool}`, {}, caller, options)
  const text = await Promise.race([heard.promise, call.then(({ json }) => `answered ${json}`)])
  const during = await isUntrusted(caller)
  ending.abort()
  await call
  return { text, during, after: await isUntrusted(caller) }
}

describe('a server that speaks before it answers', () => {
  it.each(['progress', 'log', 'elicit', 'sample'])('makes untrusted who hears it: %s', async (tool) => {
    const { text, during, after } = await heardFrom(tool)
    expect(text).toContain(OBEY)
    expect([during, after]).toEqual([true, true])
  })

  it('is heard to the end, in order, before its answer, by many callers at once', async () => {
    const calls = Array.from({ length: 8 }, async (_, index) => {
      const heard: unknown[] = []
      const client: CallingClient = {
        ...{ id: `narrated${index}`, owner: 'test', isSession: true, logLevel: 'debug', capabilities: {} },
        ask: () => new Promise(() => {}),
        tell: ({ params }) => void heard.push(params['data']),
      }
      const { isError, json } = await app.call('up__narrate', {}, connection(), { client })
      expect(isError, json).toBe(false)
      return [...heard]
    })
    for (const heard of await Promise.all(calls)) expect(heard).toEqual(['first', 'second', 'third'])
  })

  it('is heard before its question is asked', async () => {
    const heard: unknown[] = []
    const ending = new AbortController()
    const asked = Promise.withResolvers<void>()
    const client: CallingClient = {
      ...{ id: 'consulted', owner: 'test', isSession: false, logLevel: 'debug' },
      capabilities: { elicitation: { form: {} } },
      ask: () => {
        heard.push('question')
        asked.resolve()
        return new Promise(() => {})
      },
      tell: ({ params }) => void heard.push(params['data']),
    }
    const progress = ({ message = '' }) => void heard.push(message)
    const call = app.call('up__consult', {}, connection(), { client, progress, signal: ending.signal })
    await asked.promise
    expect(heard.toSorted()).toEqual(['careful', 'question', 'working'])
    expect(heard.at(-1)).toBe('question')
    ending.abort()
    await call
  })

  it('is heard by a trusted context if a policy trusts its results', async () => {
    const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', {
      mcpServerId: (await app.ask<{ items: { id: string }[] }>('get_mcp_servers', {})).items[0]!.id,
    })
    const toolId = tools.find(({ name }) => name.endsWith('progress'))!.id
    const decide = async (action: string) =>
      (await app.ask<{ policy: { id: string } }>('create_trusted_data_policy', { toolId, conditions: [], action }, cli))
        .policy.id
    const trusting = await decide('mark_as_trusted')
    expect(await heardFrom('progress')).toMatchObject({ text: OBEY, during: false, after: false })
    await app.ask('delete_trusted_data_policy', { id: trusting }, cli)
    const blocking = await decide('block_always')
    expect(await heardFrom('progress')).toMatchObject({ text: 'nothing', during: false })
    await app.ask('delete_trusted_data_policy', { id: blocking }, cli)
  })
})

describe('a server that asks after its call', () => {
  const idOfTool = async (ending: string): Promise<string> => {
    const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', {
      mcpServerId: (await app.ask<{ items: { id: string }[] }>('get_mcp_servers', {})).items[0]!.id,
    })
    return tools.find(({ name }) => name.endsWith(ending))!.id
  }

  /** A session that has called the server once, and in which the call is over. */
  async function openSession() {
    const caller = connection()
    const asked: string[] = []
    const client: CallingClient = {
      ...{ id: `aside${sessions}`, owner: `aside${sessions}`, isSession: true },
      capabilities: { elicitation: { form: {} }, sampling: {} },
      ended: new AbortController().signal,
      async ask(questions) {
        asked.push(JSON.stringify(questions))
        const text = { type: 'text', text: 'thought' }
        return Object.fromEntries(
          Object.keys(questions).map((key) => [
            key,
            { action: 'decline', role: 'assistant', model: 'm', content: text },
          ]),
        )
      },
      tell() {},
    }
    const streams = upstream.streamCount()
    const { isError, json } = await app.call('up__answer', {}, caller, { client })
    expect(isError, json).toBe(false)
    await expect.poll(upstream.streamCount).toBeGreaterThan(streams)
    return { caller, asked }
  }

  it.each(['sample', 'elicit'])('gets no answer from an untrusted context: %s', async (question) => {
    const { caller, asked } = await openSession()
    expect(await isUntrusted(caller)).toBe(true)
    expect(await upstream.askAside(question)).toMatchObject({ error: { message: expect.stringContaining('policy') } })
    expect(asked).toEqual([])
  })

  it('gets one from a trusted context, and none any more once that has read what is not trusted', async () => {
    const policy = { toolId: await idOfTool('answer'), conditions: [], action: 'mark_as_trusted' }
    const { policy: trusting } = await app.ask<{ policy: { id: string } }>('create_trusted_data_policy', policy, cli)
    const { caller, asked } = await openSession()
    expect(await isUntrusted(caller)).toBe(false)
    expect(await upstream.askAside('sample')).toMatchObject({ result: { model: 'm' } })
    expect(asked).toEqual([expect.stringContaining(OBEY)])
    await app.call('up__refuse', {}, caller)
    expect(await isUntrusted(caller)).toBe(true)
    expect(await upstream.askAside('sample')).toMatchObject({ error: { message: expect.stringContaining('policy') } })
    expect(asked).toHaveLength(1)
    await app.ask('delete_trusted_data_policy', { id: trusting.id }, cli)
  })
})

describe('a failure that quotes others', () => {
  it('of a server makes untrusted who reads it', async () => {
    const caller = connection()
    const { failure } = await app.call('up__refuse', {}, caller)
    expect(failure?.details['server_said']).toContain(OBEY)
    expect(await isUntrusted(caller)).toBe(true)
  })

  it('of a server that was never reached changes nothing', async () => {
    const caller = connection()
    const args = { name: 'Gone', serverUrl: 'http://127.0.0.1:9/mcp', scope: 'org' }
    const { id: catalogId } = await app.ask<{ id: string }>('create_mcp_server', args, caller)
    await app.call('deploy_mcp_server', { catalogId, scope: 'org' }, caller)
    expect(await isUntrusted(caller)).toBe(false)
  })

  it('of a page that redirects does, and that of the address itself does not', async () => {
    const site = createServer((req, res) => {
      if (req.url === '/go') res.writeHead(302, { location: '/obey-me-now' }).end()
      else res.writeHead(404).end()
    })
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
    const at = `http://127.0.0.1:${(site.address() as AddressInfo).port}`
    const seen = []
    for (const path of ['/plain', '/go']) {
      const caller = connection()
      const { failure } = await app.call('web.fetch', { url: `${at}${path}` }, caller)
      seen.push([failure?.details['url'], await isUntrusted(caller)])
    }
    site.closeAllConnections()
    await new Promise((resolve) => site.close(resolve))
    expect(seen).toEqual([
      [`${at}/plain`, false],
      [`${at}/obey-me-now`, true],
    ])
  })
})
