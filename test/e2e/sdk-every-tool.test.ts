import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client as Client2, StreamableHTTPClientTransport as HttpTransport2 } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpTransport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as Transport1 } from '@modelcontextprotocol/sdk/shared/transport.js'
import { describe, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { startScriptedModel } from '../support/scripted-model.ts'
import { duckDuckGo } from '../support/search-pages.ts'
import { startServerHere } from '../support/server-here.ts'
import { type Seen, toolTour } from '../support/tool-tour.ts'
import { answer, serveWeb } from '../support/web-server.ts'

/**
 * The clients that check structured content against the listed schema, with all tools listed: each tool is called so that
 * it succeeds, and so that it fails, and the client must accept both answers.
 */
type Call = { name: string; arguments: Record<string, unknown> }
type CallResult = Readonly<{ structuredContent?: unknown; isError?: unknown; content?: unknown }>
type Connected = Readonly<{
  toolNames: readonly string[]
  call(call: Call): Promise<CallResult>
  close(): Promise<void>
}>

const identity = { name: 'tour', version: '1.0.0' }
const clients: Readonly<Record<string, (url: URL) => Promise<Connected>>> = {
  async 'SDK 1.32'(url) {
    const client = new Client1(identity)
    await client.connect(new HttpTransport1(url) as Transport1)
    const { tools } = await client.listTools()
    return {
      toolNames: tools.map(({ name }) => name),
      call: async (call) => (await client.callTool(call)) as CallResult,
      close: () => client.close(),
    }
  },
  async 'SDK 2.4'(url) {
    const client = new Client2(identity)
    await client.connect(new HttpTransport2(url))
    const { tools } = await client.listTools()
    return {
      toolNames: tools.map(({ name }) => name),
      call: async (call) => (await client.callTool(call)) as CallResult,
      close: () => client.close(),
    }
  },
}

async function withServer(visit: (url: URL, webUrl: string) => Promise<void>): Promise<void> {
  await using web = await serveWeb({ '/': answer('a page'), '/search': answer(duckDuckGo.results(2), 'text/html') })
  await using model = await startScriptedModel(() => ({ text: 'hello' }))
  const dataDir = newDataDir()
  const provider = {
    name: 'scripted',
    type: 'openai',
    endpoint: `${model.url}/v1`,
    api_key: 'env:MODEL_KEY',
    models: ['default', 'smart', 'judge'].map((alias) => ({ alias, model: alias })),
  }
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    JSON.stringify({
      models: { providers: [provider] },
      workspaces: { store_gb: 0 },
      web: { allow_private_addresses: ['127.0.0.1'], search_url: web.at('/search') },
    }),
  )
  const server = await startServerHere({ dataDir, env: { MODEL_KEY: 'k' } })
  try {
    await visit(new URL(`${server.url}?tools=full`), web.at('/'))
  } finally {
    await server.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

describe.each(Object.entries(clients))('%s', (_label, connect) => {
  it('accepts every answer of every tool', { timeout: 600_000 }, async () => {
    await withServer(async (url, webUrl) => {
      const client = await connect(url)
      const tour = toolTour(webUrl)
      expect(client.toolNames.filter((name) => !tour.some(({ tool }) => tool === name))).toEqual([])
      const seen: Record<string, Record<string, unknown>> = {}
      const faults: string[] = []
      const called = async (name: string, args: Record<string, unknown>): Promise<CallResult | undefined> => {
        try {
          return await client.call({ name, arguments: args })
        } catch (error) {
          faults.push(`${name} ${JSON.stringify(args)}: ${String(error)}`)
          return undefined
        }
      }
      for (const { tool, args, fails } of tour) {
        const input = typeof args === 'function' ? args(seen as Seen) : args
        const result = await called(tool, input)
        if (result === undefined) continue
        const content = result.structuredContent as { error?: { code?: string } } & Record<string, unknown>
        if (result.isError === true ? content.error?.code !== fails : fails !== undefined) {
          faults.push(`${tool} ${JSON.stringify(input)}: ${JSON.stringify(result.content)}`)
        }
        seen[tool] = content
      }
      for (const name of client.toolNames) {
        const result = await called(name, { no_such_field: 1 })
        if (result?.isError !== true) continue
        expect(result.structuredContent).toMatchObject({ error: { code: expect.any(String) } })
      }
      expect(faults).toEqual([])
      await client.close()
    })
  })
})
