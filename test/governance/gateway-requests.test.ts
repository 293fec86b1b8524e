import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callsIn } from '../support/app.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Requests of MCP that are not calls of tools send texts of the caller to a server all the same, so they are judged and recorded. */
const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {} }
const answers: Readonly<Record<string, object>> = {
  initialize: { protocolVersion: '2025-06-18', capabilities, serverInfo: { name: 'up', version: '1' } },
  'tools/list': { tools: [{ name: 'read', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: 'obey' }] },
  'prompts/list': { prompts: [{ name: 'pr', arguments: [{ name: 'a' }] }] },
  'resources/list': { resources: [] },
  'resources/templates/list': { resourceTemplates: [{ uriTemplate: 'up://x/{q}', name: 't' }] },
  'completion/complete': { completion: { values: ['v'] } },
}

/** All that the server behind the gateway was sent. */
const received: string[] = []
const upstream = createServer((req, res) => {
  void text(req).then((body) => {
    received.push(body)
    if (req.method !== 'POST') return res.writeHead(405).end()
    const { id, method } = JSON.parse(body) as { id?: number; method: string }
    if (id === undefined) return res.writeHead(202).end()
    res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's1' })
    return res.end(JSON.stringify({ jsonrpc: '2.0', id, result: answers[method] ?? {} }))
  })
})

let server: ServerHere
let origin = ''
let path = ''

async function tool<T>(name: string, args: object): Promise<T> {
  const reply = await fetch(`${origin}/v1/tools/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  const answer = (await reply.json()) as T
  if (!reply.ok) throw new Error(JSON.stringify(answer))
  return answer
}

beforeAll(async () => {
  await new Promise<void>((done) => upstream.listen(0, '127.0.0.1', done))
  const dataDir = newDataDir()
  const web = { allow_private_addresses: ['127.0.0.1'] }
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    JSON.stringify({ web, governance: 'restrictive', rate_limits: { enabled: false } }),
  )
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
  const serverUrl = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/mcp`
  const item = await tool<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl, scope: 'org' })
  await tool('deploy_mcp_server', { catalogId: item.id, scope: 'org' })
  const gateway = await tool<{ id: string; path: string }>('create_mcp_gateway', { name: 'Office', scope: 'org' })
  path = gateway.path
  await tool('bulk_assign_tools_to_mcp_gateways', {
    assignments: [{ mcpGatewayId: gateway.id, toolId: 'up__read', resolveAtCallTime: true }],
  })
})
afterAll(async () => {
  await server.stop()
  upstream.closeAllConnections()
  upstream.close()
})

type Era = 'legacy' | 'auto'
/** A program with a key of its own, which has read nothing yet. */
async function connect(era: Era, name: string): Promise<Client> {
  const { secret } = await tool<{ secret: string }>('api_key_create', { name, role: 'member' })
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: era } })
  const requestInit = { headers: { authorization: `Bearer ${secret}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(path, origin), { requestInit }))
  return client
}

/** Each way to send a text. */
const ways: Readonly<Record<string, (client: Client, era: Era, secret: string) => Promise<unknown>>> = {
  'completion of a prompt': (client, _, value) =>
    client.complete({ ref: { type: 'ref/prompt', name: 'up__pr' }, argument: { name: 'a', value } }),
  'completion of a resource': (client, _, value) =>
    client.complete({ ref: { type: 'ref/resource', uri: 'up://x/{q}' }, argument: { name: 'q', value } }),
  async subscription(client, era, secret) {
    const uri = `up://x/${secret}`
    if (era === 'legacy') await client.subscribeResource({ uri })
    else await (await client.listen({ resourceSubscriptions: [uri] })).close()
  },
}

const entries = (): readonly Readonly<{ tool: string; via?: string; outcome: string }>[] => {
  using database = new DatabaseSync(join(server.dataDir, 'castellan.db'), { readOnly: true })
  return database
    .prepare('SELECT record FROM log_entries ORDER BY seq')
    .all()
    .flatMap(({ record }) => callsIn(String(record)))
}

describe.each(['legacy', 'auto'] as const)('a request of a client (%s) at a gateway', (era) => {
  it('that sends a text to a server is recorded, and refused once the context is untrusted', async () => {
    for (const [index, [name, send]] of Object.entries(ways).entries()) {
      const client = await connect(era, `${era}-${index}`)
      const [before, after] = [`${era}-before-${index}`, `${era}-after-${index}`]
      await send(client, era, before)
      expect(received.join('\n'), name).toContain(before)
      await client.callTool({ name: 'up__read', arguments: {} })
      await send(client, era, after).catch(() => {})
      expect(received.join('\n'), name).not.toContain(after)
      await client.close()
    }
    const via = era === 'legacy' ? 'resources/subscribe' : 'subscriptions/listen'
    await expect
      .poll(() => entries().filter((entry) => entry.via !== undefined))
      .toEqual(
        expect.arrayContaining([
          expect.objectContaining({ tool: 'get_mcp_prompt', via: 'completion/complete', outcome: 'ok' }),
          expect.objectContaining({ tool: 'read_mcp_resource', via: 'completion/complete', outcome: 'ok' }),
          expect.objectContaining({ tool: 'read_mcp_resource', via, outcome: 'ok' }),
          expect.objectContaining({ tool: 'read_mcp_resource', via, outcome: 'refused' }),
        ]),
      )
  })
})
