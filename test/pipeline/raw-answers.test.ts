import { createHash } from 'node:crypto'
import { Client as Client2, StreamableHTTPClientTransport as HttpTransport2 } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpTransport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as Transport1 } from '@modelcontextprotocol/sdk/shared/transport.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { limits } from '../../src/contract/limits.ts'
import type { RawAnswer } from '../../src/contract/raw-answer.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { createToolHost } from '../../src/tools/runtime/create-tool-host.ts'
import { defineTool, type ToolDefinition } from '../../src/tools/runtime/define-tool.ts'
import type { ToolHost } from '../../src/tools/runtime/tool-host.ts'
import { createToolViews } from '../../src/tools/runtime/tool-views.ts'
import { openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import {
  type HttpTransportApp,
  openHttpTransportApp,
  post,
  type ServedTransport,
} from '../support/http-transport-peer.ts'
import { pipelineOf } from '../support/own-tools.ts'

/** A tool may answer MCP content that another server made: it reaches every client as it was, and the log has its digest. */
const picture = { type: 'image', data: 'aGk=', mimeType: 'image/png' }
const text = (said: string) => ({ type: 'text', text: said })
const meta = { 'example.org/cost': 3 }
const answers: Readonly<Record<string, RawAnswer>> = {
  blocks: { content: [text('a picture'), picture], _meta: meta },
  structured: { content: [text('two')], structuredContent: { count: 2 } },
  failing: { content: [text('no such city')], isError: true },
  failing_structured: { content: [text('no')], structuredContent: { reason: 'quota' }, isError: true },
  huge: { content: [text('x'.repeat(limits.answerBytesMax))] },
}
const catalog = createCatalog({
  ledger: Object.entries(answers).map(([name, answer]) =>
    defineTool({
      name,
      toolset: 'ledger',
      title: name,
      description: 'Answers as another server did.',
      permission: null,
      tier: 'user',
      effect: 'external',
      idempotent: false,
      rate: 'default',
      skipJudge: true,
      raw: true,
      input: z.strictObject({}),
      run: () => answer,
    } as ToolDefinition),
  ),
})

let app: TestApp
let http: HttpTransportApp
let host: ToolHost
let served: ServedTransport
beforeAll(async () => {
  app = await openTestApp()
  const { call } = await pipelineOf(app, catalog)
  host = createToolHost({
    views: createToolViews({ catalog, clock: app.clock }),
    mode: 'FULL',
    clock: app.clock,
    callTool: Promise.resolve(call),
  })
  http = await openHttpTransportApp()
  served = await http.serve({ host })
})
afterAll(async () => {
  await http.close()
  await app[Symbol.asyncDispose]()
})

const identity = { name: 'raw', version: '1.0.0' }
type Called = (name: string) => Promise<Record<string, unknown>>

async function withSdk1(work: (call: Called) => Promise<void>): Promise<void> {
  const client = new Client1(identity)
  await client.connect(new HttpTransport1(new URL(`${served.url}/mcp?tools=full`)) as Transport1)
  await work((name) => client.callTool({ name, arguments: {} }))
  await client.close()
}

const withSdk2 =
  (mode: 'legacy' | { pin: string }) =>
  async (work: (call: Called) => Promise<void>): Promise<void> => {
    const client = new Client2(identity, { versionNegotiation: { mode } })
    await client.connect(new HttpTransport2(new URL(`${served.url}/mcp?tools=full`)))
    await work((name) => client.callTool({ name, arguments: {} }))
    await client.close()
  }

describe.each([
  ['SDK 1.32', withSdk1],
  ['SDK 2.4, sessions', withSdk2('legacy')],
  ['SDK 2.4, stateless', withSdk2({ pin: '2026-07-28' })],
])('%s', (_, connected) => {
  it('gets blocks, structured content, failure and _meta as the other server said them', () =>
    connected(async (call) => {
      const blocks = await call('blocks')
      expect(blocks['content']).toEqual(answers['blocks']!.content)
      expect(blocks['structuredContent']).toBeUndefined()
      expect(blocks['isError'] ?? false).toBe(false)
      expect(blocks['_meta']).toMatchObject(meta)
      const structured = await call('structured')
      expect(structured).toMatchObject(answers['structured']!)
      const failing = await call('failing')
      expect(failing).toMatchObject(answers['failing']!)
      expect(failing['structuredContent']).toBeUndefined()
      expect(await call('failing_structured')).toMatchObject(answers['failing_structured']!)
      // Refused by us: what the schema of the other server would not admit is said in words alone.
      const refused = await call('huge')
      expect(refused['structuredContent']).toBeUndefined()
      expect(refused['isError']).toBe(true)
      expect(JSON.stringify(refused['content'])).toContain('ERR_TOO_LARGE')
    }))
})

describe('an answer of another server', () => {
  it('is told over REST as JSON, and a failure as an error with its own words marked as such', async () => {
    expect((await post(served, 'blocks', {})).body).toEqual({ content: answers['blocks']!.content })
    expect((await post(served, 'structured', {})).body).toEqual({ count: 2 })
    const failing = await post(served, 'failing', {})
    expect(failing.status).toBe(409)
    expect(failing.body.error).toMatchObject({
      code: 'ERR_TOOL_FAILED',
      details: { answer: answers['failing']!.content },
    })
    expect(failing.body.error!.message).not.toContain('no such city')
  })

  it('is in the log with the digest of all of it, and a failure as failed', async () => {
    await host.call(ownerCaller, 'blocks', {})
    const digest = createHash('sha256').update(JSON.stringify(answers['blocks'])).digest('hex')
    expect(await app.lastCall()).toMatchObject({ tool: 'blocks', outcome: 'ok', output: `sha256:${digest}` })
    await host.call(ownerCaller, 'failing', {})
    expect(await app.lastCall()).toMatchObject({ tool: 'failing', outcome: 'failed', code: 'ERR_TOOL_FAILED' })
  })

  it('is refused by its size', async () => {
    expect((await host.call(ownerCaller, 'huge', {})).failure).toMatchObject({ code: 'ERR_TOO_LARGE' })
  })
})
