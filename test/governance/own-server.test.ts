import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** An operator may let callers reach servers of this machine. Castellan itself, which takes local programs for its owner, is one. */
let server: ServerHere
let key: string
beforeAll(async () => {
  const dataDir = newDataDir()
  const file = join(mkdtempSync(join(dataDir, 'config-')), 'castellan.yaml')
  writeFileSync(file, 'web:\n  allow_private_addresses: ["127.0.0.1", "::1"]\n')
  server = await startServerHere({ dataDir, env: { CASTELLAN_CONFIG: file } })
  const made = await call('api_key_create', { name: 'bob', role: 'editor', tier: 'user', tenant: 'acme' })
  key = made['secret'] as string
})
afterAll(() => server.stop())

type Row = Record<string, unknown>
async function call(tool: string, args: object, bearer?: string): Promise<Row> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(bearer && { authorization: `Bearer ${bearer}` }) },
    body: JSON.stringify(args),
  })
  return (await response.json()) as Row
}

describe('this server, reached through itself', () => {
  it.each(['/v1/executions', '/v1/approvals', '/v1/workflows/executions', '/v0.1/servers'])(
    'demands a key at %s',
    async (path) => {
      expect((await fetch(new URL(path, server.url))).status).toBe(200)
      const fetched = await call('web.fetch', { url: new URL(path, server.url).href }, key)
      expect(JSON.stringify(fetched)).toMatch(/401|ERR_UNAUTHENTICATED/)
    },
  )

  it('is no MCP server whose tools run as the owner', async () => {
    const serverUrl = new URL('/mcp', server.url).href
    await call('create_mcp_server', { name: 'self', serverType: 'remote', serverUrl }, key)
    const deployed = await call('deploy_mcp_server', { catalogId: 'self' }, key)
    expect(deployed).not.toMatchObject({ status: 'success' })
    const asked = { tool_name: 'api_key_create', tool_args: { name: 'pwned', role: 'admin', tier: 'operator' } }
    await call('run_tool', { tool_name: 'self__run_tool', tool_args: asked }, key)
    expect(JSON.stringify(await call('api_key_list', {}))).not.toContain('pwned')
  })
})
