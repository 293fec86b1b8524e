import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rightsOf } from '../../src/contract/permissions.ts'
import { localOwner, type Principal } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { cli } from '../support/approvals.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** The error of a call without a credential names what its caller can do, and nothing else. */
type Row = Readonly<Record<string, unknown>>
const ORIGIN = 'https://castellan.example'

let app: TestApp
let upstream: McpUpstream
let gatewayId: string
const authFields = [{ name: 'X-Api-Key', label: 'Key', type: 'header', secret: true }]
const person = (name: string, role: 'admin' | 'editor' | 'member', more: Partial<Principal> = {}): ToolCaller => ({
  ...callerOf(
    { ...localOwner, kind: 'user', actor: `${name}@example.com`, user: name, ...rightsOf(role), tier: 'user', ...more },
    { transport: 'http' },
  ),
  origin: ORIGIN,
})
const atGateway = { oauthClient: 'chat' } as const
const ofGateway = (): Partial<Principal> => ({ ...atGateway, gateway: gatewayId })

/** A server that the owner deployed with values, so that its tools are known, on the gateway. */
async function serverOf(name: string, scope: 'org' | 'personal', assigned: Row = { resolveAtCallTime: true }) {
  const values = { 'X-Api-Key': 'of-the-owner' }
  const item = { name, serverUrl: upstream.url, scope, requiresAuth: true, authFields }
  const { id } = await app.ask<{ id: string }>('create_mcp_server', item)
  const deployed = await app.ask<{ id: string }>('deploy_mcp_server', { catalogId: id, values })
  const credentials = 'mcpServerId' in assigned ? { mcpServerId: deployed.id } : assigned
  const assignments = [{ mcpGatewayId: gatewayId, toolId: `${name.toLowerCase()}__echo`, ...credentials }]
  expect(await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments }, cli)).toMatchObject({ failed: [] })
  return id
}
const echo = (name: string, caller: ToolCaller) => app.refusal(`${name}__echo`, { text: 'x' }, caller)

beforeAll(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'], 'rate_limits.enabled': false } })
  gatewayId = (await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Work' })).id
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

describe('a tool without a deployment for its caller', () => {
  it('leads a person at a gateway to the page alone, and a key to the tool', async () => {
    const id = await serverOf('Crm', 'org')
    const url = `${ORIGIN}/mcp-servers/${id}/install`
    for (const role of ['member', 'editor'] as const) {
      const failure = await echo('crm', person('dan', role, ofGateway()))
      expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_REQUIRED', details: { install_url: url, catalog_id: id } })
      expect(failure.message).toContain(url)
      expect(failure.message).not.toMatch(/install_mcp_server|deploy_mcp_server/)
    }
    const key = await app.keyCaller({ role: 'member', name: 'robot' })
    const at = { ...key, principal: { ...key.principal, gateway: gatewayId }, origin: ORIGIN }
    const { message, details } = await echo('crm', at)
    expect(message).toContain(`install_mcp_server with {"catalogId":"${id}"}`)
    expect(details).not.toHaveProperty('install_url')
  })

  it('gives no id and no page of a server that the caller cannot see', async () => {
    const id = await serverOf('Hidden', 'personal')
    const failure = await echo('hidden', person('dan', 'member', ofGateway()))
    expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_REQUIRED', details: { server: 'hidden' } })
    expect(JSON.stringify(failure)).not.toContain(id)
    expect(failure.message).toContain('Ask an administrator')
  })

  it('sends nobody to a deployment of their own where another one is assigned', async () => {
    const id = await serverOf('Pinned', 'org', { mcpServerId: 'own' })
    const failure = await echo('pinned', person('dan', 'editor', ofGateway()))
    expect(failure).toMatchObject({ code: 'ERR_CREDENTIAL_REQUIRED', details: { catalog_id: id } })
    expect(failure.message).toContain('resolveAtCallTime')
    expect(JSON.stringify(failure)).not.toMatch(/install|deploy_mcp_server/)
  })
})

describe('a deployment without its values', () => {
  it('is completed by its owner at the page', async () => {
    const id = await serverOf('Own', 'org')
    const dan = person('dan', 'member')
    await app.ask('install_mcp_server', { catalogId: id }, dan)
    const url = `${ORIGIN}/mcp-servers/${id}/install`
    const failure = await echo('own', person('dan', 'member', ofGateway()))
    expect(failure).toMatchObject({ details: { install_url: url, fields: ['X-Api-Key'] } })
    expect(failure.message).not.toMatch(/install_mcp_server|deploy_mcp_server/)
    // What it has not listed yet is no tool of the caller's elsewhere.
    const elsewhere = await echo('own', dan)
    expect(elsewhere).toMatchObject({ code: 'ERR_UNKNOWN_TOOL', details: { reason: 'ERR_CREDENTIAL_REQUIRED' } })
    expect(elsewhere.message).toContain('list_mcp_server_deployments')
  })

  it('of everyone is completed by those who may change it', async () => {
    const id = await serverOf('Common', 'org')
    await app.ask('deploy_mcp_server', { catalogId: id, scope: 'org' }, person('eve', 'admin'))
    const member = await echo('common', person('dan', 'member', ofGateway()))
    expect(member).toMatchObject({ code: 'ERR_CREDENTIAL_REQUIRED', details: { fields: ['X-Api-Key'] } })
    expect(member.message).toContain('Ask the author of the deployment')
    const admin = await echo('common', person('ada', 'admin', ofGateway()))
    expect(admin.details).toMatchObject({
      call: { tool: 'deploy_mcp_server', arguments: { catalogId: id, scope: 'org' } },
    })
  })
})
