import { rmSync } from 'node:fs'
import { createMCPClient } from '@ai-sdk/mcp'
import { Experimental_StdioMCPTransport as AiStdioTransport } from '@ai-sdk/mcp/mcp-stdio'
import { Client as Client2, StreamableHTTPClientTransport as HttpTransport2 } from '@modelcontextprotocol/client'
import { StdioClientTransport as StdioTransport2 } from '@modelcontextprotocol/client/stdio'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as StdioTransport1 } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as HttpTransport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as Transport1 } from '@modelcontextprotocol/sdk/shared/transport.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { castellan, newDataDir, writeSkills } from '../support/real-server.ts'
import { runNode } from '../support/run-node.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * Real clients against a real server process, over standard streams and over HTTP. What is asserted is what a user of the
 * client sees: the tools, an answer, a failed call, a call of nothing.
 */
const stdioDataDir = newDataDir()
const server = { stdio: { command: castellan, args: ['mcp', '--tools', 'full', '--data-dir', stdioDataDir] } }
const sample = {
  good: { name: 'task_list', arguments: {}, structured: { tasks: [], total_count: 0 } },
  /** A tool with an output schema, called so that it fails. */
  failing: { name: 'task_get', arguments: { task_id: 'T-9999' }, code: 'ERR_TASK_NOT_FOUND' },
  missing: { name: 'no_such_tool', arguments: {} },
}
const inspector = 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js'
const INSPECTOR_TIMEOUT_MS = 180_000

type TransportKind = 'stdio' | 'http'
type CallResult = Readonly<{ content?: unknown; structuredContent?: unknown; isError?: unknown }>
type Connected = Readonly<{
  toolNames(): Promise<string[]>
  call(tool: { name: string; arguments: Record<string, unknown> }): Promise<CallResult>
  close(): Promise<void>
}>
type ClientKind = Readonly<{ label: string; connect(kind: TransportKind): Promise<Connected> }>

let http: ServerHere
let url: string
beforeAll(async () => {
  http = await startServerHere()
  url = `${http.url}?tools=full`
  writeSkills(stdioDataDir)
})
afterAll(async () => {
  await http.stop()
  rmSync(stdioDataDir, { recursive: true, force: true })
})

const identity = { name: 'e2e', version: '1.0.0' }

const sdk1: ClientKind = {
  label: 'SDK 1.32',
  async connect(kind) {
    const client = new Client1(identity)
    const transport = kind === 'stdio' ? new StdioTransport1(server.stdio) : new HttpTransport1(new URL(url))
    await client.connect(transport as Transport1)
    return {
      toolNames: async () => (await client.listTools()).tools.map((tool) => tool.name),
      call: async (tool) => (await client.callTool(tool)) as CallResult,
      close: () => client.close(),
    }
  },
}

const sdk2 = (label: string, mode: 'legacy' | 'auto' | { pin: string }, revision: string): ClientKind => ({
  label,
  async connect(kind) {
    const client = new Client2(identity, { versionNegotiation: { mode } })
    await client.connect(kind === 'stdio' ? new StdioTransport2(server.stdio) : new HttpTransport2(new URL(url)))
    expect(client.getNegotiatedProtocolVersion()).toBe(revision)
    return {
      toolNames: async () => (await client.listTools()).tools.map((tool) => tool.name),
      call: (tool) => client.callTool(tool),
      close: () => client.close(),
    }
  },
})

const aiSdk: ClientKind = {
  label: 'AI SDK',
  async connect(kind) {
    const transport = kind === 'stdio' ? new AiStdioTransport(server.stdio) : { type: 'http' as const, url }
    const client = await createMCPClient({ transport, clientName: 'e2e' })
    const tools = await client.tools()
    return {
      toolNames: async () => Object.keys(tools),
      async call({ name, arguments: args }) {
        const tool = tools[name]
        if (tool === undefined) throw new Error(`There is no tool ${name}`)
        return (await tool.execute(args, { toolCallId: '1', messages: [], context: {} })) as CallResult
      },
      close: () => client.close(),
    }
  },
}

const kinds = [
  sdk1,
  sdk2('SDK 2.4 with a handshake', 'legacy', '2025-11-25'),
  sdk2('SDK 2.4 stateless', { pin: '2026-07-28' }, '2026-07-28'),
  sdk2('SDK 2.4 choosing by itself', 'auto', '2026-07-28'),
  aiSdk,
]

describe.each(kinds)('$label', ({ connect }) => {
  it.each(['stdio', 'http'] as const)('lists and calls tools over %s', async (kind) => {
    const client = await connect(kind)
    try {
      expect(await client.toolNames()).toEqual(expect.arrayContaining([sample.good.name, sample.failing.name]))
      const good = await client.call(sample.good)
      expect(good.structuredContent).toMatchObject(sample.good.structured)
      const failed = await client.call(sample.failing)
      expect(failed.isError).toBe(true)
      expect(JSON.stringify(failed.content)).toContain(sample.failing.code)
      if ('structuredContent' in failed)
        expect(failed).toHaveProperty('structuredContent.error.code', sample.failing.code)
      await expect(client.call(sample.missing)).rejects.toThrow(sample.missing.name)
    } finally {
      await client.close()
    }
  })
})

/** A name as clients show it to a model when they replace the dots by themselves. */
const withoutDots = (name: string): string => name.replaceAll('.', '_')

describe.each(kinds.filter((kind) => kind !== aiSdk))('a client that nobody knows, $label', ({ connect }) => {
  it.each(['stdio', 'http'] as const)('gets no two names that become one without dots, over %s', async (kind) => {
    const client = await connect(kind)
    try {
      const names = await client.toolNames()
      expect(names).toEqual(expect.arrayContaining(['fs.read', 'fs.create_dir']))
      expect(new Set(names.map(withoutDots)).size).toBe(names.length)
      for (const name of ['fs.create_dir', 'fs.create.dir', 'fs_create_dir']) {
        const made = await client.call({ name, arguments: { path: 7 } })
        expect(JSON.stringify(made.content)).toContain('ERR_INVALID_INPUT')
      }
    } finally {
      await client.close()
    }
  })
})

describe('a client that asks for the documented names', () => {
  it.each(['stdio', 'http'] as const)('gets all of them, over %s', async (kind) => {
    const client = new Client1(identity)
    const asked = { ...server.stdio, args: [...server.stdio.args, '--names', 'documented'] }
    const transport =
      kind === 'stdio' ? new StdioTransport1(asked) : new HttpTransport1(new URL(`${url}&names=documented`))
    await client.connect(transport as Transport1)
    const names = (await client.listTools()).tools.map((tool) => tool.name)
    await client.close()
    expect(names).toEqual(expect.arrayContaining(['fs.create_dir', 'fs.create.dir']))
  })
})

describe('the Inspector', () => {
  const targets = { stdio: () => [server.stdio.command, ...server.stdio.args], http: () => [url] }
  const inspect = (kind: TransportKind, ...args: string[]) =>
    runNode([inspector, '--cli', ...targets[kind](), '--protocol-era', ...args], INSPECTOR_TIMEOUT_MS)
  const runs = (['stdio', 'http'] as const).flatMap((kind) => ['legacy', 'modern'].map((era) => [kind, era] as const))

  it.each(runs)('finds every tool schema portable over %s, %s', async (kind, era) => {
    const { code, stdout, stderr } = await inspect(kind, era, '--method', 'tools/list', '--strict')
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining('error') })
    const { tools } = JSON.parse(stdout) as { tools: { name: string }[] }
    expect(tools.map((tool) => tool.name)).toContain(sample.good.name)
  })

  it.each(runs)('calls a tool over %s, %s', async (kind, era) => {
    const { code, stdout } = await inspect(kind, era, '--method', 'tools/call', '--tool-name', sample.good.name)
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ structuredContent: sample.good.structured })
  })

  it.each(runs)('verifies the skills and their digests over %s, %s', async (kind, era) => {
    const { code, stdout } = await inspect(kind, era, '--method', 'skills/list', '--verify', '--require-digests')
    expect(code).toBe(0)
    expect(stdout).toContain('"outcome":"verified"')
  })
})
