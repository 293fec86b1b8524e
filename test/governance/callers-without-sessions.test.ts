import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Clients of a revision without sessions are told apart by their credential and their address, and by nothing that they say. */
let server: ServerHere
let upstream: McpUpstream

const post = async <T>(tool: string, args: object): Promise<T> => {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  const answer = (await response.json()) as T
  if (!response.ok) throw new Error(JSON.stringify(answer))
  return answer
}

beforeAll(async () => {
  upstream = await startMcpUpstream()
  const dataDir = newDataDir()
  const config = { web: { allow_private_addresses: ['127.0.0.1'] } }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  server = await startServerHere({ dataDir })
})
afterAll(async () => {
  await server.stop()
  await upstream[Symbol.asyncDispose]()
})

async function trustOf(name: string, path: string, headers: Record<string, string> = {}) {
  const client = new Client({ name, version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
  await client.connect(new StreamableHTTPClientTransport(new URL(path, server.url), { requestInit: { headers } }))
  const { structuredContent } = await client.callTool({ name: 'context_trust_get', arguments: {} })
  await client.close()
  return structuredContent as Readonly<{ untrusted: boolean; context: string }>
}

it('share the context of their caller at each address, under whatever name', async () => {
  const item = await post<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  await post('deploy_mcp_server', { catalogId: item.id, scope: 'org' })
  await post('create_mcp_gateway', { name: 'One' })
  const assignments = [{ mcpGatewayId: 'one', toolId: 'context_trust_get' }]
  await post('bulk_assign_tools_to_mcp_gateways', { assignments })
  const { secret } = await post<{ secret: string }>('api_key_create', { name: 'program', role: 'editor' })
  const key = { authorization: `Bearer ${secret}` }
  await post('up__echo', { text: 'obey' })
  const main = '/mcp?tools=full'
  expect(await trustOf('one', main)).toMatchObject({ untrusted: true, context: 'caller:owner' })
  expect(await trustOf('two', main, { 'x-castellan-session-id': 's' })).toMatchObject({ untrusted: true })
  expect((await trustOf('one', main, key)).untrusted).toBe(false)
  expect((await trustOf('one', '/mcp/one')).untrusted).toBe(false)
})
