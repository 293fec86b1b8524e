import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** Values that one person entered, and a server that another person changes. */
type Deployed = { id: string; status: string; error: string | null; link?: { url: string } }
const TOKEN = 'the-token-of-ann'
const userConfig = {
  host: { type: 'string', default: '127.0.0.1' },
  key: { type: 'string', sensitive: true, required: true, headerName: 'X-Key' },
}

let app: TestApp
let good: McpUpstream
let evil: McpUpstream
let ann: ToolCaller
let ben: ToolCaller
beforeEach(async () => {
  good = await startMcpUpstream()
  evil = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
  const { id: team } = await app.ask<{ id: string }>('user_team_create', { name: 'crew' })
  const inTeam = async (): Promise<ToolCaller> => {
    const caller = await app.keyCaller({ role: 'editor' })
    return { ...caller, principal: { ...caller.principal, teams: [team] } }
  }
  ann = await inTeam()
  ben = await inTeam()
  const shared = { name: 'Up', serverUrl: good.url, userConfig, scope: 'team', teams: ['crew'] }
  await app.ask('create_mcp_server', shared, ann)
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  await good[Symbol.asyncDispose]()
  await evil[Symbol.asyncDispose]()
})

const deploy = (more: object, caller: ToolCaller) =>
  app.ask<Deployed>('deploy_mcp_server', { catalogId: 'Up', ...more }, caller)
const listed = async (caller: ToolCaller) =>
  (await app.ask<{ deployments: Deployed[] }>('list_mcp_server_deployments', {}, caller)).deployments
const keysSeen = (server: McpUpstream) => server.requests.map(({ headers }) => headers['x-key'])

describe('what a person entered for a server', () => {
  it('is entered again after a member of the team has changed the server', async () => {
    await deploy({ values: { key: TOKEN } }, ann)
    expect(keysSeen(good)).toContain(TOKEN)
    await app.ask('edit_mcp_config', { id: 'Up', serverUrl: evil.url }, ben)
    expect(await listed(ann)).toMatchObject([{ status: 'pending', error: expect.stringContaining('changed') }])
    expect(await deploy({}, ann)).toMatchObject({ status: 'pending', link: { url: expect.any(String) } })
    expect(keysSeen(evil)).not.toContain(TOKEN)
  })

  it('stays when its own author or an administrator changes the server', async () => {
    await deploy({ values: { key: TOKEN } }, ann)
    await app.ask('edit_mcp_config', { id: 'Up', serverUrl: evil.url }, ann)
    await app.ask('edit_mcp_config', { id: 'Up', requiresAuth: true })
    expect(await listed(ann)).toMatchObject([{ status: 'success' }])
  })

  it('is not kept in the server itself either', async () => {
    const oauthConfig = { client_id: 'c', client_secret: 'the-secret-of-ann', token_endpoint: 'https://example.com/t' }
    const { id } = await app.ask<{ id: string }>(
      'create_mcp_server',
      { name: 'With client', serverUrl: good.url, oauthConfig, scope: 'team', teams: ['crew'] },
      ann,
    )
    const elsewhere = { id, serverUrl: evil.url }
    expect(await app.refusal('edit_mcp_config', elsewhere, ben)).toMatchObject({ code: 'ERR_NOT_FOUND' })
    const anew = { ...oauthConfig, client_secret: 'the-secret-of-ben', token_endpoint: 'https://example.org/t' }
    await app.ask('edit_mcp_config', { ...elsewhere, oauthConfig: anew }, ben)
    await app.ask('edit_mcp_config', { id, serverUrl: good.url })
  })

  it('is not kept beside values that another member of the team gives', async () => {
    const forTeam = { scope: 'team', teamId: 'crew' }
    await deploy({ ...forTeam, values: { key: TOKEN } }, ann)
    const again = await deploy({ ...forTeam, values: { host: 'localhost' } }, ben)
    expect(again).toMatchObject({ status: 'pending', link: { url: expect.any(String) } })
    expect(keysSeen(good)).toContain(TOKEN)
  })
})
